-- What the explorer puts beside the protocol: gates at which a backend stops until it is let go, a clock that stands
-- still until it is moved, and the state of the tables as one value. Run with the protocol's schema first in search_path.
create schema explorer;

-- Seconds since the start of a schedule. A sequence, for like a clock it knows no transactions. They begin where token
-- bases do, so that tokens stay small.
create sequence explorer.clock minvalue 0 start 0;
select setval('explorer.clock', 0);
-- How many gates an actor has come to; not undone by a rollback.
create sequence explorer.turn_1;
create sequence explorer.turn_2;
create sequence explorer.turn_3;
create sequence explorer.turn_4;

create function explorer.now() returns timestamptz language sql volatile cost 1 as $$
  select timestamptz '2026-01-01 00:00:00+00' + (select last_value from explorer.clock) * interval '1 second'
$$;

-- Stops the backend of an actor where `point` is one of those that count, and tells its client at once: a notice is
-- flushed. The explorer holds the advisory lock (actor, turn). The costliest of conditions, so that it is evaluated last.
create function explorer.gate(point int) returns boolean language plpgsql volatile cost 100000 as $$
declare
  actor int := nullif(current_setting('explorer.actor', true), '');
  turn  int;
begin
  if actor is null or strpos(current_setting('explorer.points'), ',' || point || ',') = 0 then return true; end if;
  turn := nextval('explorer.turn_' || actor);
  raise notice 'gate %', point using detail = turn;
  perform pg_advisory_lock(actor, turn);
  perform pg_advisory_unlock(actor, turn);
  return true;
end $$;

-- The same between the drawing of a number and its use.
create function explorer.drawn(point int, token bigint) returns bigint language plpgsql volatile as $$
begin
  assert explorer.gate(point);
  return token;
end $$;

-- What is committed, as far as the explorer judges it.
create function explorer.state() returns jsonb language sql volatile as $$
  select jsonb_build_object(
    'clock', (select last_value from explorer.clock),
    'base', (select base from cluster),
    'locks', (select coalesce(jsonb_agg(jsonb_build_object('key', key, 'session', session, 'request', request, 'token', token,
      'tokenTo', coalesce(token_to, token), 'contended', contended, 'released', released, 'mode', mode, 'capacity', capacity,
      'forcedUntil', extract(epoch from forced_until - '2026-01-01 00:00:00+00')::int) order by key), '[]') from locks),
    'holders', (select coalesce(jsonb_agg(jsonb_build_object('key', key, 'session', session, 'request', request, 'token', token,
      'permits', permits, 'level', level, 'released', released,
      'forcedUntil', extract(epoch from forced_until - '2026-01-01 00:00:00+00')::int) order by key, token), '[]') from holders),
    'waiters', (select coalesce(jsonb_agg(jsonb_build_object('ticket', ticket, 'key', key, 'session', session, 'request', request, 'token', token, 'mode', mode,
      'permits', permits, 'wide', coalesce(wide, false), 'follows', coalesce(follows, false)) order by ticket), '[]') from waiters),
    'sessions', (select coalesce(jsonb_agg(jsonb_build_object('id', id, 'generation', generation, 'dead', died is not null,
      'expiresAt', extract(epoch from expires_at - '2026-01-01 00:00:00+00')::int) order by id), '[]') from sessions),
    'schedules', (select coalesce(jsonb_agg(jsonb_build_object('name', name, 'cron', definition->>'cron', 'version', version,
      'attempts', coalesce((definition->>'attempts')::int, 1),
      'upto', extract(epoch from upto - '2026-01-01 00:00:00+00')::int) order by name), '[]') from schedules),
    'nodes', (select coalesce(jsonb_agg(jsonb_build_object('name', name, 'node', node, 'cron', definition->>'cron', 'version', version)
      order by name, node), '[]') from schedule_nodes),
    'ticks', (select coalesce(jsonb_agg(jsonb_build_object('name', name, 'state', state, 'attempt', attempt, 'token', token,
      'slot', extract(epoch from slot - '2026-01-01 00:00:00+00')::int) order by name, slot), '[]') from ticks),
    'once', (select coalesce(jsonb_agg(jsonb_build_object('key', key, 'token', token, 'result', result,
      'keptUntil', extract(epoch from kept_until - '2026-01-01 00:00:00+00')::int) order by key), '[]') from once))
$$;

create table explorer.saved_sessions as select * from sessions limit 0;
create table explorer.saved_locks as select * from locks limit 0;
create table explorer.saved_holders as select * from holders limit 0;
create table explorer.saved_waiters as select * from waiters limit 0;
create table explorer.saved_events as select * from events limit 0;
create table explorer.saved_schedules as select * from schedules limit 0;
create table explorer.saved_nodes as select * from schedule_nodes limit 0;
create table explorer.saved_ticks as select * from ticks limit 0;
create table explorer.saved_once as select * from once limit 0;
create table explorer.saved_rest (looked_at timestamptz, fencing bigint, ticket bigint, clock bigint);

create function explorer.clear() returns void language plpgsql as $$
begin
  -- Without a quarantine: what is let go is to be seen handed over.
  update cluster set base = 0, replication = 'synchronous';
  delete from events;
  delete from waiters;
  delete from holders;
  delete from locks;
  delete from sessions;
  delete from schedules;
  delete from schedule_nodes;
  delete from ticks;
  delete from once;
  update reaper set looked_at = '-infinity';
  perform setval('fencing', 100), setval(pg_get_serial_sequence('waiters', 'ticket'), 1, false), setval('explorer.clock', 0);
end $$;

-- Keeps what is in the tables as the beginning of every schedule.
create function explorer.save() returns void language plpgsql as $$
begin
  delete from explorer.saved_sessions;
  delete from explorer.saved_locks;
  delete from explorer.saved_holders;
  delete from explorer.saved_waiters;
  delete from explorer.saved_events;
  delete from explorer.saved_rest;
  delete from explorer.saved_schedules;
  delete from explorer.saved_nodes;
  delete from explorer.saved_ticks;
  delete from explorer.saved_once;
  insert into explorer.saved_schedules select * from schedules;
  insert into explorer.saved_nodes select * from schedule_nodes;
  insert into explorer.saved_ticks select * from ticks;
  insert into explorer.saved_once select * from once;
  insert into explorer.saved_sessions select * from sessions;
  insert into explorer.saved_locks select * from locks;
  insert into explorer.saved_holders select * from holders;
  insert into explorer.saved_waiters select * from waiters;
  insert into explorer.saved_events select * from events;
  insert into explorer.saved_rest select r.looked_at, f.last_value, coalesce((select max(ticket) from waiters), 0) + 1, c.last_value
    from reaper r, fencing f, explorer.clock c;
end $$;

create function explorer.restore(actors int) returns jsonb language plpgsql as $$
begin
  delete from events;
  delete from waiters;
  delete from holders;
  delete from locks;
  delete from sessions;
  delete from schedules;
  delete from schedule_nodes;
  delete from ticks;
  delete from once;
  insert into schedules select * from explorer.saved_schedules;
  insert into schedule_nodes select * from explorer.saved_nodes;
  insert into ticks select * from explorer.saved_ticks;
  insert into once select * from explorer.saved_once;
  insert into sessions select * from explorer.saved_sessions;
  insert into locks select * from explorer.saved_locks;
  insert into holders select * from explorer.saved_holders;
  insert into waiters overriding system value select * from explorer.saved_waiters;
  insert into events overriding system value select * from explorer.saved_events;
  update reaper set looked_at = (select looked_at from explorer.saved_rest);
  update cluster set base = 0 where base <> 0;
  perform setval('fencing', r.fencing), setval(pg_get_serial_sequence('waiters', 'ticket'), r.ticket, false),
          setval('explorer.clock', r.clock) from explorer.saved_rest r;
  perform pg_advisory_unlock_all();
  for actor in 1 .. actors loop
    perform setval('explorer.turn_' || actor, 1, false), pg_advisory_lock(actor, 1);
  end loop;
  return explorer.state();
end $$;

-- Lets time pass after a schedule: the living go on with heartbeats and ticks, the crashed do not. Then everybody who
-- holds lets go, key by key, and all sessions close. `waiting`: [{session, key, request}].
create function explorer.finish(crashed uuid[], waiting jsonb) returns jsonb language plpgsql as $$
declare
  settled  jsonb;
  grants   jsonb := '[]';
  drained  jsonb;
  one      record;
begin
  perform h.renewed from sessions s, heartbeat(s.id) h where s.died is null and s.id <> all (crashed);
  update sessions set expires_at = '-infinity' where id = any (crashed) or expires_at <= explorer.now();
  for round in 1 .. 2 loop
    perform setval('explorer.clock', (select last_value + 2 from explorer.clock));
    for one in
      select s.id, coalesce(array_agg(w.key) filter (where w.key is not null), '{}') as keys,
             coalesce(array_agg(w.request) filter (where w.key is not null), '{}') as requests
        from sessions s left join jsonb_to_recordset(waiting) w(session uuid, key text, request uuid) on w.session = s.id
       where s.died is null and s.id <> all (crashed) group by s.id order by s.id
    loop
      perform tick(one.id, one.keys, one.requests);
    end loop;
  end loop;
  settled := explorer.state();
  for round in 1 .. 30 loop
    select g.* into one
      from (select l.key, l.session, l.request, l.token from locks l union all
            select h.key, h.session, h.request, h.token from holders h) g
      join sessions s on s.id = g.session where s.died is null order by g.key, g.token limit 1;
    exit when not found;
    grants := grants || jsonb_build_object('key', one.key, 'session', one.session, 'request', one.request, 'token', one.token);
    perform release(one.session, array[one.key], array[one.token]);
    -- Whoever wants several keys comes for them.
    perform t from (select w.session, array_agg(w.key) as keys, array_agg(w.request) as requests from waiters w where w.wide group by w.session) w
      cross join lateral tick(w.session, w.keys, w.requests) t;
  end loop;
  drained := explorer.state();
  perform close_session(s.id) from sessions s where s.id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  perform setval('explorer.clock', (select last_value + 2 from explorer.clock));
  perform tick('ffffffff-ffff-ffff-ffff-ffffffffffff');
  perform close_session('ffffffff-ffff-ffff-ffff-ffffffffffff');
  return jsonb_build_object('settled', settled, 'grants', grants, 'drained', drained, 'left', explorer.state());
end $$;
