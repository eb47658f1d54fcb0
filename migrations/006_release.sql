-- Up Migration
--
-- Letting go: of a grant by its token, of a place in line by its request.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Gives up the grants (keys[i], tokens[i]) of a session, compared pairwise, and hands each key to the next in line.
-- `durable => false` lets the commit of keys that nobody waited for be asynchronous; it then holds to the end of the
-- caller's transaction, so only a caller with connections of its own asks for it.
-- Of a run, a token gives up all that were before it as well; who comes after it is next in line.
-- `passed`: requests that are in line still, and have had permits that are given up here: they were passed on to them.
-- Answers released, pinned, absent or again for each pair (again: somebody queues for it at this moment), and granted,
-- follows or handed for each key that moved on.
create function release(session uuid, keys text[], tokens bigint[], durable boolean default true, seen witness default null,
                        passed uuid[] default null)
  returns setof answer
  language plpgsql security definer set search_path from current
  set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  gone   bigint[];
  taken  bigint := 0;
  rest   text[];
  locked text[];
  others text[] := '{}';
  theirs bigint[] := '{}';
  pair   record;
  held   locks;
  moved  answer[];
begin
  -- Only the slow way draws tokens and asks which incarnation this is.
  if current_setting('transaction_isolation') <> 'read committed' then perform enter(release.seen); end if;
  if release.durable then perform durable();
  elsif current_setting('synchronous_commit') <> 'off' then perform set_config('synchronous_commit', 'off', true);
  end if;
  -- Keys that nobody waits for, in one step. What is skipped (a guard, or somebody who queues just now) is next.
  -- One probe of the primary key for each pair, whatever the statistics say: as a plain join this ran through all that
  -- the session holds, pair by pair, on a freshly migrated table (4 k/s instead of 70 k/s), and by (session, token) at half.
  -- What was locked in a later version than this statement sees is not deleted here, and goes with the rest: it is ours.
  if cardinality(tokens) = 1 then
    delete from locks d
     where d.ctid = (select l.ctid from locks l
                      where l.key = release.keys[1] and l.token + 0 = release.tokens[1]
                        and l.session is not distinct from release.session and l.mode is null and not l.contended and not l.released
                        and (l.delay is null or l.forced_until is null)
                        for update skip locked);
    if found then
      return next row(null, 'released', tokens[1], null, null, null, null)::answer;
      return;
    end if;
    gone := '{}';
  else
    with mine as materialized (
      select r.place from (select * from unnest(release.keys, release.tokens) u(key, token) order by u.key) u
        cross join lateral (
          select l.ctid as place from locks l
           where l.key = u.key and l.token + 0 = u.token and l.session is not distinct from release.session
             and l.mode is null and not l.contended and not l.released and (l.delay is null or l.forced_until is null)
             for update skip locked) r),
    deleted as (
      delete from locks d where d.ctid = any (array(select m.place from mine m)) returning d.token)
    select coalesce(array_agg(d.token), '{}'), (select count(*) from mine) into gone, taken from deleted d;
    return query select null::uuid, 'released', t, null::text, null::text, null::double precision, null::bigint from unnest(gone) t;
    if cardinality(gone) = cardinality(tokens) then return; end if;
  end if;

  -- What follows draws tokens. Who holds lock rows already must not wait for the incarnation: `again` then.
  if taken = 0 then perform enter(release.seen); end if;
  -- The rest: contended, guarded, or not ours. Who has taken nothing yet may wait for them, in key order. Who has may
  -- not: a call that queues for two of these keys would wait for the one while we wait for the other.
  rest := array(select u.key from unnest(release.keys, release.tokens) u(key, token)
                  left join unnest(gone) g on g = u.token where g is null);
  if taken = 0 then
    locked := lock_rows(rest);
  elsif current_base(coalesce((release.seen).base, 0)) is null then
    locked := '{}';
  else
    locked := array(select l.key from locks l where l.key = any (rest) order by l.key for no key update skip locked);
  end if;
  for pair in
    select u.key, u.token, u.key = any (locked) as ours from unnest(release.keys, release.tokens) u(key, token)
      left join unnest(gone) g on g = u.token
     where g is null order by u.key, u.token desc
  loop
    select * into held from locks l where l.key = pair.key and l.session is not distinct from release.session and l.mode is null
                      and pair.token between l.token + 0 and coalesce(l.token_to, l.token);
    if not found then
      others := others || pair.key;
      theirs := theirs || pair.token;
      continue;
    elsif not pair.ours then
      return next row(null, 'again', pair.token, pair.key, null, null, null)::answer;
      continue;
    end if;
    if pair.token > held.token then
      delete from waiters w where w.key = pair.key and w.ticket > coalesce(held.served, 0) and w.session is not distinct from held.session
                            and w.token > held.token and w.token <= pair.token;
    end if;
    -- Given back by a process that was told to: what runs there may not have stopped.
    moved := take(pair.key, release.session, held.forced_until is not null);
    return next row(null, case moved[1].outcome when 'pinned' then 'pinned' else 'released' end, pair.token, pair.key, null, null, null)::answer;
    return query select * from tell(moved);
  end loop;
  -- Not the holder of a row: a shared lock, or permits, or nobody's.
  if cardinality(others) > 0 then
    return query select * from release_holders(release.session, others, theirs, locked, passed);
  end if;
end $$;

-- Gives up one grant and asks for its key anew, in one commit: what `release` and then `acquire` would do, for requests that all
-- wait. It is what a process does that hands a key round among its own: where nobody else is in line the new run is written as
-- such, and no ticket is drawn that would be marked in the same commit.
-- Answers what the two would, without `released` where the row stays the session's. `again` for the token: the session is not
-- what the caller takes it for, and nothing was done. `asks`: as of `acquire`, but for one key alone.
create function release_and_acquire(session uuid, generation bigint, key text, token bigint, requests uuid[],
                                    labels text[] default null, metadata jsonb[] default null, asks jsonb[] default null,
                                    seen witness default null)
  returns setof answer
  language plpgsql security definer set search_path from current
  set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  held   locks;
  moved  answer[];
  first  bigint;
  length int;
  wants  asked[];
begin
  if coalesce(cardinality(requests), 0) = 0 then
    raise exception 'fencepost: no requests' using errcode = 'FP005';
  end if;
  if asks is not null then
    wants := asked_of(array_fill(release_and_acquire.key, array[cardinality(requests)]), requests, null, release_and_acquire.labels,
                      release_and_acquire.metadata, asks);
    if exists (select from unnest(wants) w where w.wide) then
      raise exception 'fencepost: several keys are asked for by acquire' using errcode = 'FP005';
    end if;
  end if;
  perform enter(release_and_acquire.seen);
  perform from sessions s
    where s.id = release_and_acquire.session and s.generation = release_and_acquire.generation and s.died is null
      and (s.expires_at > clock_timestamp() or is_doubtful(release_and_acquire.seen, clock_timestamp()))
    for key share;
  if not found then
    return query select r, 'dead', null::bigint, null::text, null::text, null::double precision, null::bigint from unnest(requests) r;
    return next row(null, 'again', release_and_acquire.token, release_and_acquire.key, null, null, null)::answer;
    return;
  end if;
  perform lock_rows(array[release_and_acquire.key]);
  select * into held from locks l
    where l.key = release_and_acquire.key and l.session is not distinct from release_and_acquire.session and l.mode is null
      and release_and_acquire.token between l.token + 0 and coalesce(l.token_to, l.token);
  if not found then
    -- A shared lock, or not there.
    return query select * from release_holders(release_and_acquire.session, array[release_and_acquire.key], array[release_and_acquire.token],
                                               array[release_and_acquire.key]);
  else
    if held.token_to is not null then
      with gone as (
        delete from waiters w where w.key = held.key and w.ticket > coalesce(held.served, 0) and w.session is not distinct from held.session
                                and w.token > held.token and w.token <= release_and_acquire.token
          returning w.ticket)
      select greatest(held.served, max(g.ticket)) into held.served from gone g;
    end if;
    perform from locks l
      where l.key = held.key and asks is null and (not held.contended or not exists (select from waiters w where w.key = held.key and w.ticket > coalesce(held.served, 0)))
        and (held.delay is null or held.forced_until is null)
        and not exists (select from cluster c where c.quarantined_until > clock_timestamp())
      for update skip locked;
    if found then
      -- Nobody is in line and nothing pins the row, which is ours: the numbers are drawn now, and the run ends where somebody
      -- else drew one in between.
      with drawn as materialized (
        select u.place, (select c.base from cluster c) + nextval('fencing') as number
          from generate_series(1, least(cardinality(requests), 100)) u(place))
      select f.number, (select count(*) from drawn d where d.number = f.number + d.place - 1)
        into first, length from drawn f where f.place = 1;
      update locks l set
        request = requests[1], label = release_and_acquire.labels[1], metadata = release_and_acquire.metadata[1], token = first,
        token_to = case when length > 1 then first + length - 1 end, contended = cardinality(requests) > 1,
        served = pg_sequence_last_value('waiters_ticket_seq'),
        released = false, forced_until = null, delay = null, context = null, granted_at = clock_timestamp()
        where l.key = held.key;
      perform durable();
      return next row(requests[1], 'granted', first, held.key, null, null, null)::answer;
      return query
        with placed as (
          insert into waiters (key, session, request, label, metadata, token)
            select held.key, held.session, u.request, u.label, u.metadata, case when u.i <= length then first + u.i - 1 end
              from unnest(requests, release_and_acquire.labels, release_and_acquire.metadata)
                     with ordinality u(request, label, metadata, i)
             where u.i > 1 order by u.i
            on conflict (request, key) do nothing
            returning request, token)
        select p.request, case when p.token is null then 'queued' else 'follows' end, p.token,
               case when p.token is not null then held.key end, null::text,
               case when p.token is null then expires_in(held) end, null::bigint
          from placed p;
      return;
    end if;
    moved := take(held.key, held.session, held.forced_until is not null);
    return next row(null, case moved[1].outcome when 'pinned' then 'pinned' else 'released' end, release_and_acquire.token, held.key, null, null, null)::answer;
    return query select * from tell(moved);
  end if;
  -- Behind whoever was in line.
  if asks is null then
    wants := array(
      select row(u.i, release_and_acquire.key, u.request, true, u.label, u.metadata, null, null, null, null, null, null)::asked
        from unnest(requests, release_and_acquire.labels, release_and_acquire.metadata) with ordinality u(request, label, metadata, i)
       order by u.i);
  end if;
  return query select * from enqueue(release_and_acquire.session, wants, judged_at(release_and_acquire.seen));
end $$;

-- Says for runs whose turn it is, under tokens[i] of keys[i]: from then on that is who holds by what people see, and who had a
-- turn before is in line no more. The same of permits that were passed on to requests[i]. Nothing else comes of it, so a process
-- says it of turns that last.
create function turn(session uuid, keys text[], tokens bigint[], seen witness default null, requests uuid[] default null) returns void
  language plpgsql security definer set search_path from current
  set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  locked text[];
  pair   record;
  held   locks;
  own    waiters;
begin
  perform enter(turn.seen);
  locked := lock_rows(turn.keys);
  for pair in
    select u.key, u.token, u.request from unnest(turn.keys, turn.tokens, turn.requests) u(key, token, request)
     where u.key = any (locked) order by u.key, u.token
  loop
    select * into held from locks l where l.key = pair.key;
    if held.mode is not null then
      perform from holders h where h.key = pair.key and h.token = pair.token and h.session is not distinct from turn.session and not h.released;
      continue when not found;
      delete from waiters w where w.request = pair.request and w.key is not distinct from pair.key and w.session is not distinct from turn.session
        returning w.* into own;
      continue when not found;
      -- It belongs to no section that the one before was in.
      update holders h set request = own.request, context = own.context, label = own.label, metadata = own.metadata, granted_at = clock_timestamp()
        where h.key = pair.key and h.token = pair.token;
      continue;
    end if;
    continue when held.session is distinct from turn.session or held.released
               or not coalesce(pair.token > held.token and pair.token <= held.token_to, false);
    delete from waiters w where w.key = pair.key and w.ticket > coalesce(held.served, 0) and w.session is not distinct from turn.session and w.token = pair.token
      returning w.* into own;
    continue when not found;
    delete from waiters w where w.key = pair.key and w.ticket > coalesce(held.served, 0) and w.session is not distinct from turn.session
                            and w.token > held.token and w.token < pair.token;
    update locks l set request = own.request, label = own.label, metadata = own.metadata, granted_at = clock_timestamp()
      where l.key = pair.key;
  end loop;
  perform durable();
end $$;

-- Gives up the requests requests[i] for keys[i], in line or granted meanwhile. It locks the rows first, deletes the
-- tickets, and looks for grants in a statement begun afterwards: a hand-over either finds no ticket or is found.
-- A call of the same session that is still in flight is not seen: raise the generation first where one was lost.
-- Answers cancelled, released, pinned or absent for each request, and granted, follows or handed for each key that moved on.
create function cancel(session uuid, keys text[], requests uuid[], durable boolean default true, seen witness default null)
  returns setof answer
  language plpgsql security definer set search_path from current
  set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  locked text[];
  want   record;
  held   locks;
  runs   boolean;
  share  holders;
  moved  answer[];
  result answer;
begin
  perform enter(cancel.seen);
  if cancel.durable then perform durable();
  elsif current_setting('synchronous_commit') <> 'off' then perform set_config('synchronous_commit', 'off', true);
  end if;
  locked := lock_rows(cancel.keys);
  for want in
    select u.key, u.request, u.key = any (locked) as there
      from unnest(cancel.keys, cancel.requests) u(key, request) order by u.key
  loop
    result := row(want.request, 'absent', null, want.key, null, null, null);
    moved := null;
    delete from waiters w where w.request = want.request and w.key is not distinct from want.key and w.session is not distinct from cancel.session;
    if found then result.outcome := 'cancelled'; end if;
    -- A row that came into being since (a repair) is looked at only where it can be had without waiting.
    if not want.there then
      perform from locks l where l.key = want.key and l.request = want.request for no key update skip locked;
      want.there := found;
    end if;
    select * into held from locks l where l.key = want.key and want.there;
    runs := held.session = cancel.session and not held.released and exists (
      select from waiters w where w.key = want.key and w.ticket > coalesce(held.served, 0) and w.session is not distinct from held.session and w.token > held.token);
    if held.mode is not null then
      select * into share from holders h where h.request = want.request and h.key is not distinct from want.key and h.session is not distinct from cancel.session;
      if found then
        result.outcome := case when share.token = any (end_holders(array[share.key], array[share.token])) then 'released' else 'pinned' end;
        result.token := share.token;
      end if;
      -- Whom it kept waiting may fit by now.
      moved := serve(want.key, cancel.session);
    elsif runs and (held.request = want.request or held.request is null) then
      -- By now its process may have passed it on: a run is taken away when nobody is left of it.
      if held.request is not null then
        update locks l set request = null where l.key = want.key;
        result.outcome := 'cancelled';
      end if;
    elsif held.session = cancel.session and held.request is null and not held.released then
      moved := take(want.key, cancel.session);
    elsif held.request = want.request and held.session = cancel.session then
      moved := take(want.key, cancel.session);
      result.outcome := case moved[1].outcome when 'pinned' then 'pinned' else 'released' end;
      result.token := held.token;
    elsif held.released or held.session is null and held.key is not null then
      moved := take(want.key, cancel.session);
    end if;
    return next result;
    return query select * from tell(moved);
  end loop;
end $$;

update cluster set version = 6;

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function cancel(uuid, text[], uuid[], boolean, witness);
drop function turn(uuid, text[], bigint[], witness, uuid[]);
drop function release_and_acquire(uuid, bigint, text, bigint, uuid[], text[], jsonb[], jsonb[], witness);
drop function release(uuid, text[], bigint[], boolean, witness, uuid[]);
update cluster set version = 5;
