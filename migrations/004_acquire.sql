-- Up Migration
--
-- Taking keys: a set-based insert for those that are free, a place in line for the rest.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Asks for keys[i] under the name requests[i], for all i in one commit. Where wait[i] is false (null: all wait) it is
-- a try. Repeating a request is harmless. `seen`: see the type `witness`.
-- Answers granted, queued, busy, again or dead for each request (see the type `answer`), and handed for keys that
-- were found dead and went to others.
create function acquire(session uuid, generation bigint, keys text[], requests uuid[], wait boolean[] default null,
                        labels text[] default null, metadata jsonb[] default null, seen witness default null)
  returns setof answer
  language plpgsql security definer set search_path from current
  set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  base    bigint;
  drawn   bigint;
  granted uuid[];
  tokens  bigint[];
  result  answer;
begin
  if cardinality(keys) is distinct from cardinality(requests) then
    raise exception 'fencepost: % keys and % requests', cardinality(keys), cardinality(requests) using errcode = 'FP005';
  elsif current_setting('transaction_isolation') <> 'read committed' then
    perform enter(acquire.seen);
  end if;
  -- A number drawn before the row is ours may be stale, since the insert waits. It may stand only where nobody else drew
  -- one since this moment, which lies before the base is read; else the rows, ours by then, are numbered again.
  drawn := pg_sequence_last_value('fencing');
  select h.base into base from here h, sessions s
    where s.id = acquire.session and s.generation = acquire.generation and s.died is null
      and (s.expires_at > clock_timestamp() or is_doubtful(acquire.seen, clock_timestamp()))
      and h.base >= coalesce((acquire.seen).base, 0)
    for key share of s;
  if not found then
    -- A new incarnation, which may have begun the session's time anew; or the session is over.
    base := enter(acquire.seen);
    drawn := 0;
    perform from sessions s
      where s.id = acquire.session and s.generation = acquire.generation and s.died is null
      and (s.expires_at > clock_timestamp() or is_doubtful(acquire.seen, clock_timestamp()))
      for key share;
    if not found then
      return query select r, 'dead', null::bigint, null::text, null::text, null::double precision from unnest(requests) r;
      return;
    end if;
  end if;

  if cardinality(keys) = 1 then
    -- What the statement below does, without the machinery that a set needs: a fifth of a lone caller's time.
    insert into locks as l (key, session, request, token, label, metadata)
      values (keys[1], acquire.session, requests[1], base + nextval('fencing'), acquire.labels[1], acquire.metadata[1])
      on conflict (key) do nothing
      returning array[l.request], array[l.token] into granted, tokens;
  else
    with inserted as (
      insert into locks as l (key, session, request, token, label, metadata)
      select u.key, acquire.session, u.request, base + nextval('fencing'), u.label, u.metadata
        from unnest(acquire.keys, acquire.requests, acquire.labels, acquire.metadata) with ordinality u(key, request, label, metadata, i)
       order by u.key, u.i
      on conflict (key) do nothing
      returning l.request, l.token)
    select array_agg(i.request), array_agg(i.token) into granted, tokens from inserted i;
  end if;
  if granted is not null then
    if pg_sequence_last_value('fencing') - drawn is distinct from cardinality(keys)
       or base <> (select c.base from cluster c) then
      with numbered as (
        update locks l set token = (select c.base from cluster c) + nextval('fencing') where l.key = any (acquire.keys) and l.request = any (granted)
        returning l.request, l.token)
      select array_agg(n.request), array_agg(n.token) into granted, tokens from numbered n;
    end if;
    perform durable();
    if cardinality(granted) = 1 then
      result.request := granted[1];
      result.outcome := 'granted';
      result.token := tokens[1];
      return next result;
    else
      return query select g.request, 'granted', g.token, null::text, null::text, null::double precision
                     from unnest(granted, tokens) g(request, token);
    end if;
    if cardinality(granted) = cardinality(keys) then return; end if;
  end if;
  return query select * from enqueue(acquire.session, acquire.keys, acquire.requests, acquire.wait, acquire.labels,
                                     acquire.metadata, coalesce(granted, '{}'), judged_at(acquire.seen));
end $$;

-- The second half of acquire: the keys that are taken. Locks their rows first, also where they are flagged already,
-- so that a ticket is drawn under its key's row. No row any more: `again`, for no statement goes back to inserting.
create function enqueue(session uuid, keys text[], requests uuid[], wait boolean[], labels text[], metadata jsonb[],
                        granted uuid[], judged timestamptz)
  returns setof answer language plpgsql as $$
#variable_conflict use_column
declare
  locked   text[];
  want     record;
  held     locks;
  moved    answer;
  told     uuid;
  expiring double precision;
begin
  locked := lock_rows((select array_agg(u.key) from unnest(enqueue.keys, enqueue.requests) u(key, request)
                        left join unnest(enqueue.granted) g on g = u.request where g is null));
  for want in
    select u.key, u.key = any (locked) as there, array_agg(u.request order by u.i) as requests,
           array_agg(coalesce(u.wait, true) order by u.i) as waits, bool_or(coalesce(u.wait, true)) as any_waits,
           array_agg(u.label order by u.i) as labels, array_agg(u.metadata order by u.i) as metadata
      from unnest(enqueue.keys, enqueue.requests, enqueue.wait, enqueue.labels, enqueue.metadata)
             with ordinality u(key, request, wait, label, metadata, i)
      left join unnest(enqueue.granted) g on g = u.request
     where g is null group by u.key order by u.key
  loop
    moved := null;
    told := null;
    select * into held from locks l where l.key = want.key and want.there;
    if not found then
      return query select r, 'again', null::bigint, want.key, null::text, null::double precision from unnest(want.requests) r;
      continue;
    end if;
    -- Repeated. "You hold" comes from a transaction that wrote: under synchronous replication a read may answer too early.
    if held.request = any (want.requests) and held.session = enqueue.session and not held.released then
      told := held.request;
      update locks l set granted_at = l.granted_at where l.key = want.key;
      perform durable();
      return query select * from members(want.key, enqueue.session);
    end if;
    if want.any_waits then
      update locks l set contended = true, served = pg_sequence_last_value('waiters_ticket_seq') where l.key = want.key and not l.contended;
      insert into waiters (key, session, request, label, metadata)
        select want.key, enqueue.session, u.request, u.label, u.metadata
          from unnest(want.requests, want.waits, want.labels, want.metadata) with ordinality u(request, waits, label, metadata, i)
         where u.waits and u.request is distinct from told order by u.i
        on conflict (request, key) do nothing;
      perform durable();
    end if;
    if told is null and (held.released or held.forced_until <= enqueue.judged or not is_alive(held.session, enqueue.judged)) then
      moved := take(want.key, enqueue.session);
      return query select * from tell(moved, enqueue.session);
      if moved.outcome = 'free' then
        return query select r, 'again', null::bigint, want.key, null::text, null::double precision from unnest(want.requests) r;
        continue;
      end if;
      select * into held from locks l where l.key = want.key;
      if moved.outcome = 'granted' then told := held.request; end if;
    end if;
    expiring := expires_in(held.session, held.forced_until);
    return query
      select u.request, case when u.waits then 'queued' else 'busy' end, null::bigint, want.key, null::text, expiring
        from unnest(want.requests, want.waits) u(request, waits) where u.request is distinct from told;
  end loop;
end $$;

update cluster set version = 4;

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function enqueue(uuid, text[], uuid[], boolean[], text[], jsonb[], uuid[], timestamptz);
drop function acquire(uuid, bigint, text[], uuid[], boolean[], text[], jsonb[], witness);
update cluster set version = 3;
