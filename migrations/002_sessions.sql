-- Up Migration
--
-- A session stands for one client process. Grants and tickets name it and live while it does, so that one heartbeat
-- renews all of them.
--   opened --heartbeat--> alive --(close | found expired by who holds the row FOR UPDATE)--> dead --(nothing names it)--> gone
-- The row is authoritative, never the clock alone. Who writes a grant or a ticket holds it FOR KEY SHARE; a heartbeat
-- is a plain update; death, close and a lost connection raise `generation`, which waits for the first and refuses them
-- afterwards.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- One row per client process and time to live. Deleted by a tick once it is dead and no grant or ticket names it.
-- A heartbeat writes expires_at alone, which no index may cover: it stays a heap-only update.
create table sessions (
  id         uuid primary key,
  generation bigint not null default 1,
  ttl        interval not null,
  expires_at timestamptz not null,
  died       timestamptz,                     -- death is stored, never inferred twice
  opened_at  timestamptz not null default clock_timestamp(),
  owner      text,                            -- a label for people
  channel    text,                            -- where its process listens; null = it polls
  info       jsonb,                           -- host, pid, application name: for people
  -- Plain, so that raising the generation is a key update and no FOR KEY SHARE can overlook it.
  unique (id, generation)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
create index sessions_dead on sessions (died) where died is not null;

-- One row: when all sessions were last looked over, so that n processes do not each do it n times.
create table reaper (singleton boolean primary key default true check (singleton), looked_at timestamptz not null);
insert into reaper values (true, '-infinity');


-- Opens a session that lives for `ttl` after each heartbeat. Repeating it with the same id is harmless.
-- No row: that session is over; open another.
create function open_session(session uuid, ttl interval, owner text default null, channel text default null,
                             info jsonb default null, seen witness default null)
  returns table (generation bigint, boot uuid, token_base bigint, server_time double precision)
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
  here cluster;
begin
  perform enter(open_session.seen);
  select * into here from cluster;
  if open_session.ttl is null or open_session.ttl < interval '1s' or open_session.ttl > here.max_ttl then
    raise exception 'fencepost: a ttl of % is out of bounds: it is between 1 s and max_ttl, %', open_session.ttl, here.max_ttl
      using errcode = 'FP004', hint = 'An operator raises max_ttl: select configure(max_ttl => ...).';
  end if;
  insert into sessions as s (id, ttl, expires_at, owner, channel, info)
    values (open_session.session, open_session.ttl, clock_timestamp() + open_session.ttl,
            open_session.owner, open_session.channel, open_session.info)
    on conflict (id) do update set expires_at = clock_timestamp() + s.ttl
      where s.died is null and s.expires_at > clock_timestamp();
  perform durable();
  return query
    select s.generation, here.boot, here.base, server_time()
      from sessions s
     where s.id = open_session.session and s.died is null and s.expires_at > clock_timestamp();
end $$;

-- Renews a session in a transaction of its own. Durable: a primary that is cut off must not go on answering.
-- Where the clock is in doubt it does not judge: nobody has taken what this session holds while its death is not stored.
-- `held` and `tokens` (their xor) let the client see that the two of them differ; `settle` then says in what.
-- `forced` are tokens that an operator took, which this renewal does not extend and which `held` does not count. They come
-- with the renewal itself: a holder that was told later would meanwhile trust them for another ttl. From `events`, too, for
-- by now they may have moved on; not from before two ttls, when their holder has been told or trusts nothing any more.
create function heartbeat(session uuid, seen witness default null)
  returns table (renewed boolean, boot uuid, token_base bigint, server_time double precision, held bigint, tokens bigint,
                 forced bigint[])
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
  alive boolean;
begin
  perform enter(heartbeat.seen);
  update sessions s set expires_at = clock_timestamp() + s.ttl
    where s.id = heartbeat.session and s.died is null
      and (s.expires_at > clock_timestamp() or is_doubtful(heartbeat.seen, clock_timestamp()));
  alive := found;
  perform durable();
  return query
    select alive, c.boot, c.base, server_time(), a.n - r.n, coalesce(a.x, 0) # coalesce(r.x, 0),
           array(select l.token from locks l where l.session = heartbeat.session and l.forced_until is not null
                 union
                 select h.token from holders h where h.session = heartbeat.session and h.forced_until is not null
                 union
                 select e.token from events e, sessions s
                  where e.session = heartbeat.session and e.what = 'forced' and s.id = e.session
                    and (e.at > clock_timestamp() - 2 * s.ttl or is_doubtful(heartbeat.seen, clock_timestamp())))
      from cluster c,
           (select count(*) n, bit_xor(g.token) x
              from (select l.token from locks l where l.session = heartbeat.session
                    union all select h.token from holders h where h.session = heartbeat.session) g) a,
           (select count(*) n, bit_xor(g.token) x
              from (select l.token from locks l where l.session = heartbeat.session and (l.released or l.forced_until is not null)
                    union all
                    select h.token from holders h where h.session = heartbeat.session and (h.released or h.forced_until is not null)) g) r;
end $$;

-- After a connection was lost with calls in flight: waits for what still runs under the session's generation, and
-- refuses what arrives under it later. Returns the new generation, or null: the session is over.
create function raise_generation(session uuid, generation bigint, seen witness default null) returns bigint
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
begin
  perform enter(raise_generation.seen);
  update sessions s set generation = raise_generation.generation + 1
    where s.id = raise_generation.session and s.died is null
      and s.generation = raise_generation.generation;
  perform durable();
  return (select s.generation from sessions s
           where s.id = raise_generation.session and s.died is null
             and s.generation = raise_generation.generation + 1);
end $$;

-- Whether a grant of this session may still be in use. One that has expired by then is buried on the way.
create function is_alive(session uuid, judged timestamptz) returns boolean language plpgsql as $$
begin
  perform bury(is_alive.session, is_alive.judged);
  return exists (select from sessions s where s.id = is_alive.session and s.died is null);
end $$;

-- Stores the death of a session that had expired at a moment (null: the clock is in doubt, and judges nobody). Only who
-- holds the row FOR UPDATE, taken in one step, may judge; a row that somebody else holds is left to him.
create function bury(session uuid, judged timestamptz) returns void language plpgsql as $$
begin
  perform from sessions s
    where s.id = bury.session and s.died is null and s.expires_at <= bury.judged
    for update skip locked;
  if found then
    update sessions s set died = clock_timestamp(), generation = s.generation + 1 where s.id = bury.session;
    perform durable();
  end if;
end $$;

update cluster set version = 2;

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function bury(uuid, timestamptz);
drop function is_alive(uuid, timestamptz);
drop function raise_generation(uuid, bigint, witness);
drop function heartbeat(uuid, witness);
drop function open_session(uuid, interval, text, text, jsonb, witness);
drop table reaper, sessions;
update cluster set version = 1;
