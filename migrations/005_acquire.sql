-- Up Migration
--
-- Taking keys: a set-based insert for those that are free, a place in line for the rest.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Asks for keys[i] under the name requests[i], for all i in one commit. Where wait[i] is false (null: all wait) it is
-- a try. Repeating a request is harmless. `seen`: see the type `witness`; `asks`: the type `terms`, as JSON (null: exclusive locks).
-- A request for several keys is named once for each, in one call, with `wide` in its terms.
-- Answers granted, queued, busy, mismatch, again or dead for each request (see the type `answer`), and handed for keys that
-- were found dead and went to others.
-- Errors: FP005 terms that mean nothing.
create function acquire(session uuid, generation bigint, keys text[], requests uuid[], wait boolean[] default null,
                        labels text[] default null, metadata jsonb[] default null, asks jsonb[] default null,
                        seen witness default null)
  returns setof answer
  language plpgsql security definer set search_path from current
  set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  base    bigint;
  held_up timestamptz;
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
  select h.base, h.quarantined_until into base, held_up from here h, sessions s
    where s.id = acquire.session and s.generation = acquire.generation and s.died is null
      and (s.expires_at > clock_timestamp() or is_doubtful(acquire.seen, clock_timestamp()))
      and h.base >= coalesce((acquire.seen).base, 0)
    for key share of s;
  if not found then
    -- A new incarnation, which may have begun the session's time anew; or the session is over.
    base := enter(acquire.seen);
    held_up := (select c.quarantined_until from cluster c);
    drawn := 0;
    perform from sessions s
      where s.id = acquire.session and s.generation = acquire.generation and s.died is null
      and (s.expires_at > clock_timestamp() or is_doubtful(acquire.seen, clock_timestamp()))
      for key share;
    if not found then
      return query select r, 'dead', null::bigint, null::text, null::text, null::double precision, null::bigint from unnest(requests) r;
      return;
    end if;
  end if;

  if asks is not null or held_up > clock_timestamp() then
    return query select * from acquire_on_terms(acquire.session, keys, requests, acquire.wait, acquire.labels, acquire.metadata, asks,
                                                held_up, judged_at(acquire.seen));
    return;
  elsif cardinality(keys) = 1 then
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
      return query select g.request, 'granted', g.token, null::text, null::text, null::double precision, null::bigint
                     from unnest(granted, tokens) g(request, token);
    end if;
    if cardinality(granted) = cardinality(keys) then return; end if;
  end if;
  return query select * from enqueue(acquire.session, array(
    select row(u.i, u.key, u.request, coalesce(u.wait, true), u.label, u.metadata, null, null, null, null, null, null)::asked
      from unnest(acquire.keys, acquire.requests, acquire.wait, acquire.labels, acquire.metadata)
             with ordinality u(key, request, wait, label, metadata, i)
      left join unnest(granted) g on g = u.request where g is null order by u.i), judged_at(acquire.seen));
end $$;

-- Requests, with their places in a call and what they ask for. Errors: FP005 terms that mean nothing.
create function asked_of(keys text[], requests uuid[], wait boolean[], labels text[], metadata jsonb[], asks jsonb[])
  returns asked[] language plpgsql as $$
#variable_conflict use_column
declare
  wants asked[];
begin
  wants := array(
    select row(u.i, u.key, u.request, coalesce(u.wait, true), u.label, u.metadata, t.mode, t.permits, t.capacity,
               t.delay * interval '1 ms', t.context, t.wide)::asked
      from unnest(keys, requests, asked_of.wait, labels, asked_of.metadata, asks)
             with ordinality u(key, request, wait, label, metadata, ask, i)
      cross join lateral jsonb_populate_record(null::terms, coalesce(u.ask, '{}')) t order by u.i);
  if exists (select from unnest(wants) w
              where coalesce(w.mode, 'shared') not in ('shared', 'permits')
                 or (w.mode is not distinct from 'permits') <> coalesce(w.permits between 1 and w.capacity, false)
                 or w.mode is not null and (w.wide or w.delay is not null)) then
    raise exception 'fencepost: terms that mean nothing' using errcode = 'FP005', hint = 'See the type "terms".';
  end if;
  return wants;
end $$;

-- The same for requests on terms of their own. One insert again, for rows that are inserted in two steps would be waited for out of
-- order: grants where exclusive locks are asked for, and heads without a holder for the rest, who then stand in line as everybody does.
-- In a quarantine it grants nothing: rows that rest until it ends (`held_up`), and everybody is in line.
create function acquire_on_terms(session uuid, keys text[], requests uuid[], wait boolean[], labels text[], metadata jsonb[],
                                 asks jsonb[], held_up timestamptz, judged timestamptz)
  returns setof answer language plpgsql as $$
#variable_conflict use_column
declare
  wants   asked[];
  refused uuid[];
  granted uuid[] := '{}';
  told    answer[];
  terms   record;
begin
  wants := asked_of(keys, requests, acquire_on_terms.wait, labels, acquire_on_terms.metadata, asks);
  if held_up > clock_timestamp() then
    -- A try of what is free, or of several keys, is over: nothing of it stays. Found by one statement: the key may come and go.
    refused := array(select w.request from unnest(wants) w where not w.waits and (w.wide or not exists (select from locks l where l.key = w.key)));
    return query
      select w.request, 'busy', null::bigint, w.key, null::text, greatest(extract(epoch from held_up - clock_timestamp()) * 1000, 0)::float8, null::bigint
        from unnest(wants) w where w.request = any (refused);
    wants := array(select w from unnest(wants) w where w.request <> all (refused) order by w.place);
  end if;
  select bool_or(w.mode is null) as are_exclusive, bool_or(w.wide) as are_wide into terms from unnest(wants) w;
  insert into locks (key, session, request, token, mode, capacity, delay, context, label, metadata)
    select w.key, case when w.mode is null then acquire_on_terms.session end, case when w.mode is null then w.request end,
           case when w.mode is null then -nextval('fencing') else 0 end,
           w.mode, w.capacity, w.delay, w.context, w.label, w.metadata
      from unnest(wants) w order by w.key, w.place
    on conflict (key) do nothing;
  if terms.are_exclusive then
    if held_up > clock_timestamp() then
      update locks l set session = null, request = null, token = 0, contended = true, released = true, rests_until = held_up, delay = null,
                         context = null
        where l.key = any (keys) and l.session = acquire_on_terms.session and l.token < 0;
    end if;
    -- Of several keys, some may not be ours: those that are stay closed for the request, which stands in line.
    if terms.are_wide then
      update locks l set session = null, request = null, token = 0, contended = true, delay = null, context = null
        where l.key = any (keys) and l.session = acquire_on_terms.session and l.token < 0 and l.request = any (array(
          select w.request from unnest(wants) w
            left join lateral (select l.key from locks l where l.key = w.key and l.request = w.request and l.token < 0 limit 1) l on true
           where w.wide group by w.request having bool_or(l.key is null)));
    end if;
    -- Numbered when they are ours: a number drawn before the insert, which waits, may be stale.
    with numbered as (
      update locks l set token = (select c.base from cluster c) + nextval('fencing')
        where l.key = any (keys) and l.session = acquire_on_terms.session and l.token < 0 and l.request = any (requests)
        returning l.request, l.token, l.key)
    select coalesce(array_agg(n.request), '{}'), array_agg(row(n.request, 'granted', n.token, n.key, null, null, null)::answer)
      into granted, told from numbered n;
  end if;
  perform durable();
  if cardinality(granted) > 0 then
    return query select * from unnest(told);
    wants := array(select w from unnest(wants) w where w.request <> all (granted) order by w.place);
  end if;
  if cardinality(wants) > 0 then
    return query select * from enqueue(acquire_on_terms.session, wants, acquire_on_terms.judged);
  end if;
end $$;

-- The second half of acquire: the keys that are taken. Locks their rows first, also where they are flagged already,
-- so that a ticket is drawn under its key's row. No row any more: `again`, for no statement goes back to inserting.
-- Who comes to a head where nobody is in line is let in at once, if they fit; else a try stands in line as well where it could be
-- served, and is taken out of it again.
create function enqueue(session uuid, wants asked[], judged timestamptz) returns setof answer language plpgsql as $$
#variable_conflict use_column
declare
  locked   text[];
  undone   uuid[] := '{}';
  torn     uuid[];
  strange  uuid[];
  place    record;
  held     locks;
  ours     asked[];
  standing asked[];
  tries    boolean;
  several  boolean;
  moves    boolean;
  behind   boolean;
  moved    answer[];
  told     uuid[] := '{}';
  expiring double precision;
begin
  select bool_or(not w.waits), bool_or(w.wide) is true into tries, several from unnest(wants) w;
  locked := lock_rows(array(select w.key from unnest(wants) w));
  -- Several keys: in the lines of all of them, or of none.
  if several then
    undone := array(select w.request from unnest(wants) w
                     where w.wide and (w.key <> all (locked) or exists (select from locks l where l.key = w.key and l.mode = 'permits')));
    return query
      select w.request, case l.mode when 'permits' then 'mismatch' else 'again' end, null::bigint, w.key, null::text, null::double precision,
             l.capacity::bigint
        from unnest(wants) w left join locks l on l.key = w.key and l.mode = 'permits' where w.request = any (undone);
    -- Repeated, and some of what it was granted is gone since: it gives back the rest, and stands in line for all of it.
    torn := array(
      select w.request from unnest(wants) w
        left join lateral (select l.key from locks l where l.key = w.key and l.request = w.request and not l.released limit 1) l on true
        left join lateral (select h.key from holders h where h.request = w.request and h.key is not distinct from w.key and not h.released
                            limit 1) h on true
       where w.wide group by w.request having count(coalesce(l.key, h.key)) < count(*));
    update locks l set released = true
      where l.key = any (locked) and l.session is not distinct from enqueue.session and l.request = any (torn);
    -- One of them was made a shared lock.
    update holders h set released = true
      where h.key = any (locked) and h.session is not distinct from enqueue.session and h.request = any (torn);
    -- Nor by halves: tickets of a session of its client that is over go, so that all of its own are drawn in this commit. Drawn in
    -- two, they could make a circle with those of another.
    delete from waiters d where d.request = any (array(
      select w.request from unnest(wants) w
        left join lateral (select x.key from waiters x where x.request = w.request and x.key is not distinct from w.key
                              and x.session is not distinct from enqueue.session limit 1) x on true
       where w.wide group by w.request having count(x.key) < count(*)));
  end if;
  for place in
    select w.key, w.key = any (locked) as there, array_agg(w.request) as requests, bool_or(w.mode is not distinct from 'permits') as wants_permits,
           array_agg(w order by w.place) as wants
      from unnest(enqueue.wants) w group by w.key order by w.key
  loop
    moved := '{}';
    ours := place.wants;
    if cardinality(undone) > 0 then ours := array(select w from unnest(ours) w where w.request <> all (undone) order by w.place); end if;
    select * into held from locks l where l.key = place.key and place.there;
    if not found then
      return query select w.request, 'again', null::bigint, w.key, null::text, null::double precision, null::bigint from unnest(ours) w;
      continue;
    end if;
    if held.mode = 'permits' or place.wants_permits then
      -- Not what is repeated from before a `resize`.
      strange := array(
        select w.request from unnest(ours) w
         where not fits_kind(w, held)
           and (select true from waiters x where x.request = w.request and x.key is not distinct from w.key limit 1) is null
           and (select true from holders h where h.request = w.request and h.key is not distinct from w.key limit 1) is null);
      return query
        select w.request, 'mismatch', null::bigint, w.key, null::text, null::double precision, held.capacity::bigint from unnest(ours) w
         where w.request = any (strange);
      ours := array(select w from unnest(ours) w where w.request <> all (strange) order by w.place);
    end if;
    -- Repeated. "You hold" comes from a transaction that wrote: under synchronous replication a read may answer too early.
    if held.request = any (place.requests) and held.session = enqueue.session and not held.released then
      told := told || held.request;
      update locks l set granted_at = l.granted_at where l.key = place.key;
      perform durable();
      return query select * from members(place.key, enqueue.session);
    elsif held.mode is not null then
      return query
        with repeated as (
          update holders h set granted_at = h.granted_at
            where h.request = any (place.requests) and h.key is not distinct from place.key and h.session is not distinct from enqueue.session
              and not h.released
            returning h.*)
        select r.request, 'granted', r.token, r.key, null::text, null::double precision, r.level from repeated r;
      if found then
        told := told || array(select h.request from holders h
                               where h.request = any (place.requests) and h.key is not distinct from place.key
                                 and h.session is not distinct from enqueue.session and not h.released);
        perform durable();
      end if;
      moved := array(select a from admit(held, enqueue.session, array(
        select w from unnest(ours) w where w.request <> all (told) order by w.place)) a);
      if cardinality(moved) > 0 then
        return query select * from unnest(moved);
        told := told || array(select m.request from unnest(moved) m);
        moved := '{}';
      end if;
      continue when (select count(*) from unnest(ours) w where w.request <> all (told)) = 0;
    end if;
    -- An exclusive lock moves on where its holder has given it back, or lost it; a head's line at any time.
    moves := held.mode is null and not (held.request = any (told)) is true
             and (held.released or held.forced_until <= enqueue.judged or not is_alive(held.session, enqueue.judged));
    standing := ours;
    if tries or cardinality(told) > 0 then
      standing := array(
        select w from unnest(ours) w
         where w.request <> all (told) and (w.waits or w.wide or held.mode is not null or moves and w.mode is not null) order by w.place);
    end if;
    if cardinality(standing) > 0 then
      update locks l set contended = true, served = pg_sequence_last_value('waiters_ticket_seq') where l.key = place.key and not l.contended;
      insert into waiters (key, session, request, label, metadata, mode, permits, capacity, delay, context, wide)
        select place.key, enqueue.session, w.request, w.label, w.metadata, w.mode, w.permits, w.capacity, w.delay, w.context, w.wide
          from unnest(standing) w order by w.place
        on conflict (request, key) do nothing;
      perform durable();
    end if;
    if held.mode is not null then
      -- Behind somebody alive who does not fit: whoever makes room serves the line, and who is in it looks after the holders.
      behind := held.contended and not held.released and not exists (select from unnest(standing) w where not w.waits)
                and exists (select from first_of(held) f where is_alive(f.session, enqueue.judged));
    end if;
    if moves then
      moved := take(place.key, enqueue.session, not held.released);
    elsif held.mode is not null and not behind then
      moved := serve(place.key, enqueue.session);
      if (select count(*) from unnest(moved) m where m.outcome = 'granted') < cardinality(standing)
         and reap_holders(place.key, enqueue.judged) then
        moved := moved || serve(place.key, enqueue.session);
      end if;
    end if;
    if cardinality(moved) > 0 then
      -- A try is in line no longer than this.
      if tries then
        moved := array(select m from unnest(moved) m
                        where m.outcome <> 'follows' or m.token is not null or (select w.waits from unnest(ours) w where w.request = m.request) is not false);
      end if;
      return query select * from tell(moved);
      told := told || array(select m.request from unnest(moved) m
                             where m.request is not null and (m.outcome = 'granted' or m.outcome = 'follows' and m.token is null));
      select * into held from locks l where l.key = place.key;
      if not found then
        return query select w.request, 'again', null::bigint, w.key, null::text, null::double precision, null::bigint
                       from unnest(ours) w where w.request <> all (told) and w.wide is not true;
        continue;
      end if;
    end if;
    if tries then
      delete from waiters w where w.key is not distinct from place.key and w.request = any (array(
        select s.request from unnest(standing) s where not s.waits and s.wide is not true and s.request <> all (told)));
      -- Whoever came behind such a try, in this call, may fit without it.
      if found and held.mode is not null then
        moved := serve(place.key, enqueue.session);
        return query select * from tell(moved);
        told := told || array(select m.request from unnest(moved) m where m.outcome = 'granted' and m.request is not null);
      end if;
    end if;
    expiring := expires_in(held);
    return query
      select w.request, case when w.waits then 'queued' else 'busy' end, null::bigint, w.key, null::text, expiring, null::bigint
        from unnest(ours) w where w.request <> all (told) and w.wide is not true;
  end loop;
  if several and exists (select from unnest(wants) w where w.wide and w.request <> all (undone) and w.request <> all (told)) then
    return query select * from settle_wide(enqueue.session, array(
      select w from unnest(wants) w where w.wide and w.request <> all (undone) and w.request <> all (told) order by w.place));
  end if;
end $$;

-- Whether a request is of the kind that a key is in use as.
create function fits_kind(want asked, held locks) returns boolean language sql as $$
  select case when held.mode = 'permits' then want.mode is not distinct from 'permits' and want.capacity = held.capacity
              else want.mode is distinct from 'permits' end
$$;

-- What becomes of requests for several keys that stand in all their lines by now: all are theirs, or they wait, or a try is over.
create function settle_wide(session uuid, wants asked[]) returns setof answer language plpgsql as $$
#variable_conflict use_column
declare
  want record;
  mine answer[];
  held locks;
begin
  for want in
    select w.request, array_agg(w.key order by w.key) as keys, bool_and(w.waits) as waits from unnest(wants) w group by w.request order by min(w.place)
  loop
    mine := array(select t from take_all(settle_wide.session, want.keys, want.request) t);
    if cardinality(mine) > 0 then
      return query select * from unnest(mine);
      continue;
    end if;
    if not want.waits then delete from waiters w where w.request = want.request; end if;
    for held in select l.* from locks l where l.key = any (want.keys) order by l.key loop
      return next row(want.request, case when want.waits then 'queued' else 'busy' end, null, held.key, null, expires_in(held), null)::answer;
      -- Others of this call may be behind it.
      if not want.waits and held.mode is not null then
        return query select * from tell(serve(held.key, settle_wide.session));
      elsif not want.waits and held.session is null then
        return query select * from tell(take(held.key, settle_wide.session));
      end if;
    end loop;
  end loop;
end $$;

update cluster set version = 5;

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function settle_wide(uuid, asked[]);
drop function fits_kind(asked, locks);
drop function enqueue(uuid, asked[], timestamptz);
drop function asked_of(text[], uuid[], boolean[], text[], jsonb[], jsonb[]);
drop function acquire_on_terms(uuid, text[], uuid[], boolean[], text[], jsonb[], jsonb[], timestamptz, timestamptz);
drop function acquire(uuid, bigint, text[], uuid[], boolean[], text[], jsonb[], jsonb[], witness);
update cluster set version = 4;
