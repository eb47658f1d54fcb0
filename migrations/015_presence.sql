-- Up Migration
--
-- Presence: how a process that is gone is found out before its ttl has run out. Of sessions that ask for it, none else: an
-- election's own. docs/protocol.md argues the rules under "Presence".
--   none --show_presence--> shown --withdraw_presence | a new incarnation--> none
--                             |  its connection is gone, for a grace, by the clock of who waits: reap_absent
--                             v
--                           dead, as after a ttl
-- The server's process that serves the owner's connection holds an advisory lock, so it is gone when that is; the session's row
-- says under which number, and whether it counts at all.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- A heartbeat writes none of them: it stays a heap-only update.
alter table sessions
  add column presence_generation bigint,      -- counts what was said of its presence; null: nothing yet
  add column presence_boot       uuid,        -- the incarnation in which it was shown, and counts; null: none is shown
  add column presence_grace      interval;    -- how long it may be gone
create index sessions_shown on sessions (id) where presence_boot is not null;

-- The number of the advisory lock. Each generation has its own: a server's process that has not noticed yet that its client is
-- gone keeps nobody from showing presence anew. Two that meet by chance, here or with somebody's own locks, seem there for longer.
create function presence_key(session uuid, generation bigint) returns bigint language sql as $$
  select hashtextextended('fencepost presence ' || session::text || ' ' || generation, 0)
$$;

-- Shows presence on this connection, for as long as that lasts. The lock first, the row then: whoever sees the number finds the
-- lock taken, or its owner gone. The numbers are the caller's, each higher than the last, so that a call which comes late, after
-- a later one was answered, changes nothing. False: refused, for that or because the session is over.
create function show_presence(session uuid, generation bigint, grace interval, seen witness default null) returns boolean
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
  place bigint := presence_key(show_presence.session, show_presence.generation);
  shown boolean;
begin
  perform enter(show_presence.seen);
  if show_presence.grace is null or show_presence.grace not between interval '500 ms' and interval '1 day' then
    raise exception 'fencepost: a grace of % is out of bounds: it is between 500 ms and a day', show_presence.grace
      using errcode = 'FP012';
  end if;
  perform pg_advisory_lock(place);
  update sessions s set presence_generation = show_presence.generation, presence_grace = show_presence.grace, presence_boot = c.boot
    from cluster c
   where s.id = show_presence.session and s.died is null and coalesce(s.presence_generation, 0) < show_presence.generation;
  shown := found;
  if not shown then perform pg_advisory_unlock(place); end if;
  perform durable();
  return shown;
end $$;

-- Takes back all that was shown under lower numbers, and what may still come under them: the ttl alone counts again, once this has
-- answered true. It may come by any connection, and more than once. False: the session is over.
create function withdraw_presence(session uuid, generation bigint, seen witness default null) returns boolean
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
begin
  perform enter(withdraw_presence.seen);
  update sessions s set presence_generation = withdraw_presence.generation, presence_boot = null
   where s.id = withdraw_presence.session and s.died is null and coalesce(s.presence_generation, 0) < withdraw_presence.generation;
  perform durable();
  return exists (select from sessions s where s.id = withdraw_presence.session and s.died is null
                    and s.presence_generation >= withdraw_presence.generation);
end $$;

-- What others are known by: it tells whether two answers are of one session, and gives nobody's id away.
create function peer_of(session uuid, boot uuid) returns text language sql as $$
  select md5(session::text || boot::text)
$$;

-- Who shows presence, and whether its connection is gone just now: who holds the key, the first in its line, and a sample of the
-- others, always the same ones. The lock is tried shared, so that those who ask at one moment do not take each other for the
-- owner, and for this statement. Of one's own session, whose connection this is, it is not asked. `grace` in milliseconds.
create function probe_presence(session uuid, key text)
  returns table (peer text, generation bigint, grace double precision, absent boolean, holds boolean)
  language plpgsql security definer set search_path from current
  set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  life   cluster;
  holder uuid;
  asked  uuid[];
begin
  -- There it would succeed, and mean nothing.
  if pg_is_in_recovery() then
    raise exception 'fencepost: this server is a standby' using errcode = 'read_only_sql_transaction';
  end if;
  select * into life from here h;
  if not found then return; end if;   -- what was shown was shown in another life
  holder := (select l.session from locks l where l.key = probe_presence.key and not l.released);
  asked := array(
    select holder
    union all
    select * from (select w.session from locks l cross join lateral (
        select x.session, x.ticket from waiters x where x.key = l.key and x.ticket > coalesce(l.served, 0) order by x.ticket limit 8) w
      where l.key = probe_presence.key) f
    union all
    select * from (select s.id from sessions s where s.presence_boot is not null and s.presence_boot = life.boot and s.died is null
                    order by s.id limit 32) o);
  return query
    select peer_of(s.id, life.boot), s.presence_generation, (extract(epoch from s.presence_grace) * 1000)::double precision,
           s.id is distinct from probe_presence.session
             and pg_try_advisory_xact_lock_shared(presence_key(s.id, s.presence_generation)),
           s.id is not distinct from holder
      from (select distinct a.id from unnest(asked) a(id)) d
      cross join lateral (select * from sessions x where x.id = d.id and x.presence_boot = life.boot and x.died is null limit 1) s;
end $$;

-- Stores the death of who holds a key, whose presence, of this generation, has been gone for its grace. The caller says so: it has
-- counted that by a clock of its own, which no step of the server's can shorten. Under the session's row: who shows presence anew,
-- or withdraws it, comes before or finds itself dead; and the lock is tried once more. Not while a new life of the server is
-- young, when everybody's connection is gone, nor where its clock is in doubt. True: it is dead; the next tick hands over.
create function reap_absent(key text, peer text, generation bigint, seen witness default null) returns boolean
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
  judged timestamptz;
  holder uuid;
begin
  perform enter(reap_absent.seen);
  judged := judged_at(reap_absent.seen);
  if judged is null then return false; end if;
  holder := (select l.session from locks l where l.key = reap_absent.key and not l.released);
  perform from sessions s where s.id = holder and s.died is null for update skip locked;
  if not found then return false; end if;
  -- In a statement that begins with the row ours.
  perform from sessions s, cluster c
    where s.id = holder and s.died is null and s.presence_boot = c.boot and s.presence_generation = reap_absent.generation
      and peer_of(s.id, c.boot) = reap_absent.peer
      and judged - c.since >= greatest(s.presence_grace, interval '10 s');
  if not found then return false; end if;
  if not pg_try_advisory_xact_lock_shared(presence_key(holder, reap_absent.generation)) then return false; end if;
  update sessions s set died = clock_timestamp(), generation = s.generation + 1 where s.id = holder;
  perform durable();
  return true;
end $$;

update cluster set version = 15;
select close_to_public();

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function reap_absent(text, text, bigint, witness);
drop function probe_presence(uuid, text);
drop function peer_of(uuid, uuid);
drop function withdraw_presence(uuid, bigint, witness);
drop function show_presence(uuid, bigint, interval, witness);
drop function presence_key(uuid, bigint);
drop index sessions_shown;
alter table sessions drop column presence_grace, drop column presence_boot, drop column presence_generation;
update cluster set version = 14;
