-- Up Migration
--
-- A key and its line.
--   no row --acquire--> held --release, nobody waits--> no row
--                       held --enqueue--> held, contended --release--> held by the head of the line
--                       held --release under a guard--> held, released --(any later call that meets it)--> as above
--                       the head's session cannot be locked --> nobody's, released --(its locker, or a tick)--> as above
--                       the head wants other keys as well --> nobody's, closed --(a tick of its process, once all are)--> held
--                       held --its holder was lost, and wanted it to rest--> nobody's, resting --(time)--> as above
--                       the head came into line in a quarantine (001) --> nobody's, resting --(its end)--> as above
-- Shared locks and permits: the row is the HEAD of the key, and who holds it is in `holders` (004).
-- A RUN: a hand-over grants to the head, and in advance to the tickets of the same session right behind it, each under the
-- next number. Inside their process they take turns without a call; the tickets of those that had theirs go at the release.
-- The row is authoritative. Who takes a grant away takes two steps: FOR NO KEY UPDATE in key order, which waits only
-- for short calls of this protocol, then FOR UPDATE SKIP LOCKED, which skips nothing but a guard.
-- Lock order, everywhere: cluster, reaper, sessions, lock rows by key, holder rows, tickets; sessions of others with SKIP LOCKED.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- One row per key in use. Deleted by the release that finds nobody waiting.
create table locks (
  key        text collate "C" primary key check (key <> '' and octet_length(key) <= 1000),
  session    uuid,                            -- null: nobody holds it, and the next call that meets it hands it over
  request    uuid,                            -- the acquire that was granted
  token      bigint not null,                 -- of a head: the fence level of its holders, 0 until there was one
  token_to   bigint,                          -- the last of a run; null: it is none
  mode       text check (mode in ('shared', 'permits')),  -- null: exclusive, and the row is the grant; else a head
  capacity   int,                             -- of a semaphore: how many permits there are. Such a row is deleted by nobody
  contended  boolean not null default false,  -- somebody may be waiting
  released   boolean not null default false,  -- to be handed over as soon as nothing pins it
  served     bigint,                          -- every ticket of the key up to this one is gone: a scan of its line begins here
  oldest     bigint,                          -- of a head: none of its holders has a lower token, so that a scan of them begins here
  forced_until timestamptz,                   -- an operator took it: no renewal extends it beyond this moment
  delay      interval,                        -- how long it is to rest should its holder be lost
  rests_until timestamptz,                    -- nobody's, and granted to nobody before this moment
  context    uuid,                            -- the section that it was asked for in: the request by which that holds its lock
  granted_at timestamptz not null default clock_timestamp(),
  label      text,
  metadata   jsonb,
  -- Plain: not partial, not deferrable, without `contended`, `released` and `forced_until`. It finds a session's grants, and it makes
  -- every change of holder a key update, so that a guard's FOR KEY SHARE cannot pass on an old row version.
  unique (session, token)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
create index locks_ending on locks (session) where released or forced_until is not null;

-- What a request asks for beyond an exclusive lock of one key.
create type terms as (
  mode     text,                              -- shared or permits; null: exclusive
  permits  int,                               -- how many of a semaphore's,
  capacity int,                               -- and how many it is said to have
  delay    double precision,                  -- milliseconds that the key rests should the holder be lost
  context  uuid,                              -- the section that it is asked for in: the request by which that holds its lock
  wide     boolean                            -- one of several keys, which are taken together or not at all
);

-- The lines. A ticket exists => its key has a row in `locks` that is contended. It is drawn under the lock of that row, so they
-- rise along the line; and between two vacuums a hot key leaves a million of them behind, past which no scan must go. Nor one by its session:
-- hence `is not distinct from`, which is no condition for an index.
-- Deleted by whoever grants it (`hand_over`, `serve`, `take_all`), by the release of its run, by cancel, by a resize that it can never
-- fit, and by whoever buries its session.
create table waiters (
  ticket      bigint generated always as identity,
  key         text collate "C" not null,
  session     uuid not null,
  request     uuid not null,
  enqueued_at timestamptz not null default clock_timestamp(),
  label       text,
  metadata    jsonb,
  token       bigint,                         -- in the run of a row that this session holds under a lower one: its turn comes
  mode        text,                           -- as in `terms`, and so are the next four
  permits     int,
  capacity    int,
  delay       interval,
  context     uuid,
  wide        boolean,
  follows     boolean,                        -- of permits: its process may pass on to it what it holds itself (004)
  primary key (key, ticket)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- Under a collation of its own, which compares the same, so that no condition on a key alone is one for this index: to a planner
-- that takes the table for empty, all of it costs as much to read as one line.
create unique index waiters_request on waiters (request, key collate "POSIX");
create index waiters_session on waiters (session);

-- What people did by hand: who, when, why. Written by `force_release` and `raise_base`, which delete what is older than
-- thirty days, a thousand rows at a time.
create table events (
  id      bigint generated always as identity primary key,
  at      timestamptz not null default clock_timestamp(),
  what    text not null check (what in ('forced', 'raised')),
  role    text not null default session_user, -- as which they had logged in
  by      text,                               -- what they called themselves
  reason  text not null,
  key     text collate "C",
  token   bigint,
  session uuid,                               -- whose grant it was: kept from everybody, it is as good as a key
  owner   text
);
create index events_session on events (session) where session is not null;

-- What every queue function answers with, a row for each thing that happened:
--   granted   request, token, key, level      you hold it; no request: somebody in the run of this grant does; no level: the token is it
--   follows   request, token, key             in the run of the grant that is answered with it: yours after the number before
--   follows   request, key, level             permits of yours of this key may be passed on to it
--   queued    request, expires_in             in line; look again at the latest when the holder's session expires
--   busy      request, expires_in             a try that found it taken
--   mismatch  request, level, key             not that kind of key: a semaphore of so many permits; no level: none
--   again     request | token, key            not decided: send the same again
--   dead      request                         your session is over
--   cancelled request                         its ticket is gone
--   released  token, key                      you no longer hold it
--   forced    token, key, expires_in          marked: it moves on when its holder gives it back, and then at the latest
--   pinned    token, key                      the same, but a guarded transaction is still open: it goes on after that
--   absent    token, key | request            nothing of yours was there
--   handed    key, channel                    somebody else's grant: notify that channel once this has committed
create type answer as (
  request uuid, outcome text, token bigint, key text, channel text,
  expires_in double precision,                -- milliseconds
  level bigint                                -- what a fence compares, for shared locks and permits
);


-- Milliseconds until the session of a key's holder expires, the first of several, or what was forced or rests ends: a waiter looks
-- again no later.
create function expires_in(held locks) returns double precision language plpgsql as $$
declare
  ends timestamptz;
begin
  if held.session is not null then
    ends := (select least(s.expires_at, held.forced_until) from sessions s where s.id = held.session);
  elsif held.mode is null then
    -- A closed line is no matter of time.
    if held.rests_until is null and not held.released then return null; end if;
    ends := held.rests_until;
  else
    ends := (select min(least(s.expires_at, h.forced_until)) from holders h join sessions s on s.id = h.session where h.key = held.key);
  end if;
  return greatest(extract(epoch from ends - clock_timestamp()) * 1000, 0);
end $$;

-- Gives a key to the head of its line, or deletes it. The caller holds its row FOR UPDATE, and nobody holds the key.
-- Its first answer says what became of the key, and those that `tell` passes on are for others to know:
-- `granted` and who follows for a ticket of the caller's own session, `handed` for another's, `free`, or
-- `deferred`: the head's session is locked by somebody else; nobody is passed over, and who holds it, or the next tick, hands over.
create function hand_over(key text, caller uuid) returns answer[] language plpgsql as $$
#variable_conflict use_column
declare
  head   waiters;
  behind waiters;
  alive  sessions;
  served bigint;
  rests  timestamptz;
  bound  bigint;
  ends   timestamptz;
  number bigint;
begin
  select coalesce(l.served, 0), l.rests_until, c.newcomers_after, c.quarantined_until into served, rests, bound, ends
    from locks l, cluster c where l.key = hand_over.key;
  if rests > clock_timestamp() then return rest(hand_over.key, rests); end if;
  if (ends > clock_timestamp()) is not true then bound := null; end if;
  loop
    select * into head from waiters w where w.key = hand_over.key and w.ticket > served order by w.ticket limit 1;
    if not found then
      delete from locks l where l.key = hand_over.key;
      return array[row(null, 'free', null, null, null, null, null)::answer];
    end if;
    select * into alive from sessions s where s.id = head.session and s.died is null for key share skip locked;
    if not found then
      if exists (select from sessions s where s.id = head.session and s.died is null) then
        update locks l set session = null, request = null, released = true, contended = true where l.key = hand_over.key;
        perform durable();
        return array[row(null, 'deferred', null, null, null, null, null)::answer];
      end if;
      delete from waiters w where w.key = head.key and w.ticket = head.ticket;
      continue;
    end if;
    if head.ticket > bound then return rest(hand_over.key, ends); end if;
    if head.mode is not null then
      perform open_head(head);
      return serve(hand_over.key, hand_over.caller);
    elsif head.wide then
      return close_line(head, alive.channel);
    end if;
    -- No row: it was cancelled meanwhile, and its cancel will find nothing granted.
    delete from waiters w where w.key = head.key and w.ticket = head.ticket;
    continue when not found;
    select * into behind from waiters w where w.key = hand_over.key and w.ticket > head.ticket order by w.ticket limit 1;
    update locks l set
      session = head.session, request = head.request, served = head.ticket, label = head.label, metadata = head.metadata,
      token = (select c.base from cluster c) + nextval('fencing'), token_to = null, mode = null, delay = head.delay, rests_until = null,
      context = head.context,
      contended = behind.key is not null, released = false, forced_until = null, granted_at = clock_timestamp()
      where l.key = hand_over.key
      returning l.token into number;
    -- Who holds something else is not in a run: its turn may be over while by the row it still holds.
    if behind.session = head.session and head.context is null and head.delay is null and bound is null then
      perform begin_run(hand_over.key, head.session, number);
    end if;
    perform durable();
    if head.session = hand_over.caller then return array(select m from members(hand_over.key, hand_over.caller) m); end if;
    return array[row(null, 'handed', null, hand_over.key, alive.channel, null, null)::answer];
  end loop;
end $$;

-- Leaves a key without a holder for a time. It is `released`: every tick that comes by hands it over, once it may.
create function rest(key text, until timestamptz) returns answer[] language plpgsql as $$
#variable_conflict use_column
begin
  update locks l set session = null, request = null, token = coalesce(l.token_to, l.token), token_to = null, released = true, contended = true,
                     forced_until = null, context = null, delay = null, rests_until = rest.until
    where l.key = rest.key and (l.session is not null or not l.released or l.rests_until is distinct from rest.until);
  if found then perform durable(); end if;
  return array[row(null, 'rests', null, null, null, null, null)::answer];
end $$;

-- Leaves a key without a holder, for the head of its line wants others as well: once it heads the lines of all of them, and nobody
-- holds any, its process takes them (004). Till then nobody is served here.
create function close_line(head waiters, channel text) returns answer[] language plpgsql as $$
#variable_conflict use_column
begin
  update locks l set session = null, request = null, mode = null, token = coalesce(l.token_to, l.token), token_to = null, contended = true,
                     released = false, forced_until = null, delay = null, rests_until = null, context = null, served = head.ticket - 1
    where l.key = head.key
      and (l.session is not null or l.released or l.mode is not null or l.rests_until is not null or l.served is distinct from head.ticket - 1);
  -- Told once, by `served`, which is so low for nobody else; who misses it looks within the poll interval.
  if not found then return array[row(null, 'closed', null, head.key, null, null, null)::answer]; end if;
  perform durable();
  return array[row(null, 'handed', null, head.key, close_line.channel, null, null)::answer];
end $$;

-- Grants in advance: to the tickets at the head of a line that are of the holder's session, a hundred at most, under the
-- numbers that follow its token; not to those that ask for more than an exclusive lock of this key. Drawn here, after the row is ours; it ends where somebody else drew one in between, so
-- that no number is another key's as well.
create function begin_run(key text, session uuid, token bigint) returns void language plpgsql as $$
#variable_conflict use_column
declare
  tickets bigint[];
  length  int;
begin
  tickets := array(
    select a.ticket from (
      select w.ticket, bool_and(w.session = begin_run.session and w.is_plain) over (order by w.ticket) as ours
        from (select x.ticket, x.session, x.mode is null and x.wide is null and x.context is null and x.delay is null as is_plain from waiters x
               where x.key = begin_run.key and x.ticket > (select coalesce(l.served, 0) from locks l where l.key = begin_run.key)
               order by x.ticket limit 100) w) a
     where a.ours order by a.ticket);
  with drawn as materialized (
    select u.place, (select c.base from cluster c) + nextval('fencing') as number
      from generate_series(1, cardinality(tickets)) u(place))
  select count(*) into length from drawn d where d.number = begin_run.token + d.place;
  if length = 0 then return; end if;
  -- Nobody else's is between them. As a range, for an index may be read by the key alone where single tickets are asked for (14).
  update waiters w set token = begin_run.token + array_position(tickets, w.ticket)
    where w.key = begin_run.key and w.ticket between tickets[1] and tickets[length];
  update locks l set token_to = begin_run.token + length where l.key = begin_run.key;
end $$;

-- What of it is to be told: to others that their channel is to be notified, to one's own who has it and who follows.
create function tell(moved answer[]) returns setof answer language sql as $$
  select * from unnest(moved) m where m.outcome in ('granted', 'follows', 'handed')
$$;

-- A grant of a session, and who follows in its run.
create function members(key text, session uuid) returns setof answer language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
declare
  held locks;
begin
  select * into held from locks l where l.key = members.key and l.session is not distinct from members.session;
  if not found then return; end if;
  return next row(held.request, 'granted', held.token, held.key, null, null, null)::answer;
  if held.token_to is null then return; end if;
  return query
    select w.request, 'follows', w.token, w.key, null::text, null::double precision, null::bigint from waiters w
     where w.key = held.key and w.ticket > coalesce(held.served, 0) and w.session is not distinct from held.session and w.token > held.token
     order by w.token;
end $$;

-- Takes a key from its holder and hands it over. The caller holds its row FOR NO KEY UPDATE. A guard is not waited
-- for: the row is marked, new guards are refused by the mark, and the next call that meets it hands over (`pinned`).
-- `lost`: nobody gave it back, so that it rests first where its holder wanted that.
create function take(key text, caller uuid, lost boolean default false) returns answer[] language plpgsql as $$
#variable_conflict use_column
begin
  if lost then
    update locks l set rests_until = clock_timestamp() + l.delay, delay = null where l.key = take.key and l.delay is not null;
  end if;
  perform from locks l where l.key = take.key for update skip locked;
  if found then return hand_over(take.key, take.caller); end if;
  update locks l set released = true where l.key = take.key and not l.released;
  perform durable();
  return array[row(null, 'pinned', null, null, null, null, null)::answer];
end $$;

-- Locks the rows of these keys that exist, in key order, and returns their keys.
create function lock_rows(keys text[]) returns text[] language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
begin
  return (select coalesce(array_agg(r.key), '{}') from (
    select l.key from locks l where l.key = any (keys) order by l.key for no key update) r);
end $$;

update cluster set version = 3;

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function lock_rows(text[]);
drop function take(text, uuid, boolean);
drop function tell(answer[]);
drop function members(text, uuid);
drop function begin_run(text, uuid, bigint);
drop function close_line(waiters, text);
drop function rest(text, timestamptz);
drop function hand_over(text, uuid);
drop function expires_in(locks);
drop type answer, terms;
drop table events, waiters, locks;
update cluster set version = 2;
