-- Up Migration
--
-- What has to happen without anybody's release: the dead are buried, what they held moves on, lines are repaired.
-- Nothing here is needed for safety; everything here is needed so that nobody is forgotten.
-- Joins are written as probes (lateral, with a limit): to a planner that takes a table for empty, reading all of it is no worse.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Looks after the requests (keys[i], requests[i]) that a session waits for, and, at most once a second over all
-- callers, after everybody's. A process ticks after each heartbeat, while it waits, and while something it released
-- is pinned.
-- Answers granted, queued or again for each request, follows for who is in a run, and handed for each key that moved on.
create function tick(session uuid, keys text[] default '{}', requests uuid[] default '{}', seen witness default null)
  returns setof answer
  language plpgsql security definer set search_path from current
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
  set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  judged   timestamptz;
  over_all boolean;
  dead     uuid[];
  wide     uuid[];
  places   text[];
  place    text;
  held     locks;
  moved    answer[];
begin
  perform enter(tick.seen);
  judged := judged_at(tick.seen);
  perform from reaper r
    where r.looked_at <= clock_timestamp() - interval '1s' or r.looked_at > clock_timestamp()
    for update skip locked;
  over_all := found and judged is not null;
  if over_all then update reaper set looked_at = clock_timestamp(); end if;
  -- Requests for several keys whose turn seems to have come: all of the keys are nobody's.
  wide := array(select u.request from unnest(tick.requests) u(request) group by u.request having count(*) > 1);
  if cardinality(wide) > 0 then
    wide := array(select u.request from unnest(tick.keys, tick.requests) u(key, request)
                    left join lateral (select l.key from locks l where l.key = u.key and l.session is null and l.mode is null limit 1) l on true
                   where u.request = any (wide) group by u.request having count(*) = count(l.key));
  end if;
  -- Whoever was woken comes for its grant: what has to be looked after can wait for the next tick, that is a second at most.
  -- Not so keys that are closed for somebody here: nobody else takes them, and nobody says so again.
  if not over_all and cardinality(wide) = 0 and (exists (
       select from locks l where l.key = any (tick.keys) and l.session is not distinct from tick.session and l.request = any (tick.requests)
                             and not l.released)
     or exists (select from holders h where h.request = any (tick.requests) and h.session is not distinct from tick.session and not h.released)) then
    return query select * from look(tick.session, tick.keys, tick.requests);
    return;
  end if;

  -- Sessions before lock rows, tickets last.
  if judged is not null then
    perform bury(s.id, judged) from sessions s
      where s.died is null and s.expires_at <= judged
        and (over_all or s.id in (select l.session from locks l where l.key = any (tick.keys)
                                  union all select h.session from holders h where h.key = any (tick.keys)
                                  union all select f.session from locks l cross join lateral first_of(l) f
                                             where l.key = any (tick.keys) and l.session is null));
  end if;
  if over_all then dead := array(select s.id from sessions s where s.died is not null limit 1000); end if;
  perform mend_lines(tick.keys, tick.requests);
  if cardinality(wide) > 0 then
    perform from sessions s where s.id = tick.session and s.died is null for key share skip locked;
    if not found then wide := '{}'; end if;
  end if;

  select array_agg(distinct c.key) into places from (
    select l.key from locks l where l.key = any (tick.keys)
       and (l.released or l.forced_until <= judged
            or case when l.mode is null then not exists (select from sessions s where s.id = l.session and s.died is null)
                    else may_move(l, judged) end)
    union all
    select l.key from locks l where l.session = tick.session and l.released
    union all
    select h.key from holders h where h.session = tick.session and h.released
    union all
    select u.key from unnest(tick.keys, tick.requests) u(key, request) where u.request = any (wide)
    union all
    select * from (select l.key from locks l where over_all and (l.released or l.forced_until <= judged) limit 1000) r
    union all
    select * from (select h.key from holders h where over_all and (h.released or h.forced_until <= judged) limit 1000) r
    union all
    select * from (select l.key from locks l where l.session = any (dead) limit 1000) d
    union all
    select * from (select h.key from holders h where h.session = any (dead) limit 1000) d
    union all
    select * from (select l.key from waiters w cross join lateral (select l.key from locks l where l.key = w.key and l.session is null limit 1) l
                    where w.session = any (dead) limit 1000) d) c;
  if places is not null then
    places := lock_rows(places);
    foreach place in array places loop
      select * into held from locks l where l.key = place;
      if dead <> '{}' and held.session is null then
        delete from waiters w where w.key = place and w.ticket > coalesce(held.served, 0) and array_position(dead, w.session) is not null;
      end if;
      if held.mode is not null then
        perform reap_holders(place, judged);
        moved := serve(place, tick.session);
      else
        continue when not held.released and (held.forced_until <= judged) is not true and is_alive(held.session, null);
        moved := take(place, tick.session, not held.released);
      end if;
      return query select * from tell(moved) m where m.outcome = 'handed';
    end loop;
    perform take_all(tick.session, w.keys, w.request) from (
      select u.request, array_agg(u.key) as keys from unnest(tick.keys, tick.requests) u(key, request)
       where u.request = any (wide) group by u.request) w
     where w.keys <@ places;
  end if;
  if over_all then perform clear_away(); end if;

  if cardinality(tick.keys) > 0 then
    return query select * from look(tick.session, tick.keys, tick.requests);
  end if;
end $$;

-- The first in line of a key.
create function first_of(held locks) returns setof waiters language sql set enable_seqscan = off as $$
  select w.* from waiters w where w.key = held.key and w.ticket > coalesce(held.served, 0) order by w.ticket limit 1
$$;

-- Whether there is something to do at a head: a holder that is none any more, or somebody in line who fits, or is dead.
create function may_move(head locks, judged timestamptz) returns boolean language sql set enable_seqscan = off as $$
  with has as (select count(*) as holding, coalesce(sum(h.permits), 0) as used,
                      bool_or(h.released or h.forced_until <= judged
                              or not exists (select from sessions s where s.id = h.session and s.died is null)) as over
                 from holders h where h.key = head.key)
  select coalesce(has.over, false) or exists (
           select from first_of(head) f
            where has.holding = 0 or f.mode = head.mode and (head.mode = 'shared' or has.used + f.permits <= head.capacity)
               or not exists (select from sessions s where s.id = f.session and s.died is null))
    from has
$$;

-- What became of requests that wait: in one statement, so that a hand-over is seen whole or not at all.
create function look(session uuid, keys text[], requests uuid[]) returns setof answer
  language plpgsql set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
  set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  writes boolean := current_setting('synchronous_standby_names') <> '';
  ours   text[];
  shares bigint[];
begin
  -- Where a synchronous standby may be waited for, a commit whose wait was cancelled is visible before it is
  -- replicated; then "you hold" must come from a transaction that wrote. Elsewhere visible means flushed.
  -- By now the call may hold tickets and other rows: what it cannot lock at once it does not answer yet.
  if writes then
    ours := array(select l.key from locks l
                   where l.key = any (look.keys) and (l.request = any (look.requests) or l.token_to is not null) and l.session is not distinct from look.session
                   order by l.key for no key update skip locked);
    update locks l set granted_at = l.granted_at where l.key = any (ours);
    shares := array(select h.token from holders h
                     where h.request = any (look.requests) and h.session is not distinct from look.session
                     order by h.token for no key update skip locked);
    update holders h set granted_at = h.granted_at where h.request = any (look.requests) and h.token = any (shares);
    perform durable();
  end if;
  return query
    select u.request,
           case when l.is_theirs is not true and h.token is null then case when t.ticket is null then 'again' when t.follows then 'follows' else 'queued' end
                when writes and u.key <> all (ours) and (h.token = any (shares)) is not true then 'queued' else 'granted' end,
           case when l.is_theirs and (not writes or u.key = any (ours)) then l.token
                when not writes or h.token = any (shares) then h.token end,
           u.key, null::text, expires_in(l.held), case when t.follows then coalesce(h.level, l.token) else h.level end
      from unnest(look.keys, look.requests) u(key, request)
      left join lateral (
        select l as held, l.token, l.request = u.request and l.session = look.session and not l.released as is_theirs
          from locks l where l.key = u.key limit 1) l on true
      left join lateral (
        select h.token, h.level from holders h
         where h.request = u.request and h.key is not distinct from u.key and h.session is not distinct from look.session and not h.released limit 1) h on true
      left join lateral (
        select w.ticket, w.follows from waiters w where w.request = u.request and w.key is not distinct from u.key limit 1) t on true;
  -- All of a run, also who was not asked for: one who learns of it late finds it over.
  return query
    select m.* from (select l.key from locks l
                      where l.key = any (look.keys) and l.session is not distinct from look.session and l.token_to is not null and not l.released
                        and (not writes or l.key = any (ours))) r
      cross join lateral members(r.key, look.session) m;
end $$;

-- Tickets that no release would ever find, since their key has no row, or one whose line is said to begin after them: neither
-- comes about by the functions here, but by what people do to the tables. Each process looks for its own.
create function mend_lines(keys text[], requests uuid[]) returns void language plpgsql
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
begin
  insert into locks (key, token, contended, released)
    select distinct t.key, 0, true, true
      from unnest(mend_lines.keys, mend_lines.requests) u(key, request)
      cross join lateral (select w.key from waiters w where w.request = u.request and w.key is not distinct from u.key limit 1) t
     where (select true from locks l where l.key = t.key limit 1) is null order by t.key
    on conflict do nothing;
  if found then perform durable(); end if;
  update locks l set served = null
    where l.key = any (array(
      select m.key from unnest(mend_lines.keys, mend_lines.requests) u(key, request)
        cross join lateral (select w.ticket from waiters w where w.request = u.request and w.key is not distinct from u.key limit 1) t
        cross join lateral (select l.key from locks l where l.key = u.key and l.served >= t.ticket for no key update skip locked) m));
  if found then perform durable(); end if;
end $$;

-- Tickets of the dead, then the dead that nothing names any more. Not tickets for what nobody holds by itself, whose line may be
-- closed for one of them, or could be served without: there they go with a look at the key.
create function clear_away() returns void language plpgsql as $$
#variable_conflict use_column
begin
  delete from waiters w where w.ctid = any (array(
    select x.ctid from waiters x where x.session = any (array(select s.id from sessions s where s.died is not null limit 1000))
       and (select true from locks l where l.key = x.key and l.session is null limit 1) is null
     limit 1000 for update skip locked));
  delete from sessions s where s.id = any (array(
    select x.id from sessions x
     where x.died is not null
       and (select true from locks l where l.session = x.id limit 1) is null
       and (select true from holders h where h.session = x.id limit 1) is null
       and (select true from waiters w where w.session = x.id limit 1) is null
     limit 1000 for update skip locked));
end $$;

-- Ends a session: its tickets go, what it holds moves on, and calls of it that arrive later are refused. Durable,
-- else it might come back after a crash. What is pinned keeps the row, dead, until the guard has ended.
-- `lost`: its process says so because it could not keep it, and what runs there may not have stopped.
create function close_session(session uuid, seen witness default null, lost boolean default false) returns setof answer
  language plpgsql security definer set search_path from current set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  place text;
  held  locks;
  moved answer[];
begin
  perform enter(close_session.seen), durable();
  update sessions s set died = coalesce(s.died, clock_timestamp()), generation = s.generation + 1
    where s.id = close_session.session;
  if not found then return; end if;
  foreach place in array lock_rows(array(
    select l.key from locks l where l.session = close_session.session
    union select h.key from holders h where h.session = close_session.session
    union select w.key from waiters w where w.session = close_session.session))
  loop
    delete from waiters w where w.key = place and w.session = close_session.session;
    select * into held from locks l where l.key = place;
    if held.mode is not null then
      perform reap_holders(place, null);
      moved := serve(place, close_session.session);
    else
      continue when not held.released and held.session <> close_session.session;
      moved := take(place, close_session.session, close_session.lost and not held.released);
    end if;
    return query select * from tell(moved) m where m.outcome = 'handed';
  end loop;
  delete from waiters w where w.ctid = any (array(
    select x.ctid from waiters x where x.session = close_session.session for update skip locked));
  delete from sessions s where s.id = close_session.session
    and not exists (select from locks l where l.session = s.id)
    and not exists (select from holders h where h.session = s.id)
    and not exists (select from waiters w where w.session = s.id);
end $$;

-- All that a session holds, and what an operator took of it (`forced`), for a client whose own account differs from the
-- heartbeat's. `requests` are whose grant it is, all of a run, with the token of each; `last` is the last of the run.
create function settle(session uuid, seen witness default null)
  returns table (key text, token bigint, requests uuid[], tokens bigint[], last bigint, forced boolean)
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
begin
  perform enter(settle.seen);
  return query
    select l.key, l.token, array[l.request], array[l.token], l.token, l.forced_until is not null
      from locks l
     where l.session = settle.session and not l.released and l.token_to is null
    union all
    select l.key, l.token, m.requests, m.tokens, l.token_to, l.forced_until is not null
      from locks l
      cross join lateral (
        select array_agg(m.request order by m.token) as requests, array_agg(m.token order by m.token) as tokens
          from members(l.key, l.session) m where m.request is not null) m
     where l.session = settle.session and not l.released and l.token_to is not null
    union all
    select h.key, h.token, array[h.request], array[h.token], h.token, h.forced_until is not null
      from holders h where h.session = settle.session and not h.released
    union all
    select * from (
      select e.key, e.token, null::uuid[], null::bigint[], e.token, true from events e
       where e.session = settle.session and e.what = 'forced'
         and not exists (select from locks l where l.session = e.session and l.token = e.token and not l.released)
         and not exists (select from holders h where h.session = e.session and h.token = e.token and not h.released)
       order by e.id desc limit 1000) f;
end $$;

update cluster set version = 7;

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function settle(uuid, witness);
drop function close_session(uuid, witness, boolean);
drop function clear_away();
drop function mend_lines(text[], uuid[]);
drop function look(uuid, text[], uuid[]);
drop function may_move(locks, timestamptz);
drop function first_of(locks);
drop function tick(uuid, text[], uuid[], witness);
update cluster set version = 6;
