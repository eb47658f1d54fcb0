-- Up Migration
--
-- More than one holder: shared locks, and the permits of semaphores. The key's row is a HEAD, nobody's by itself.
--   no row --acquire--> head, with holders --the last lets go, nobody waits--> no row; a semaphore's head stays, without holders
--                                          --the last lets go, the head of the line is exclusive--> held (003)
-- One rule for all kinds: THE HEAD OF THE LINE IS GRANTED WHILE IT FITS, AND NOBODY PASSES IT. A shared lock fits beside others, n
-- permits while so many are free, an exclusive lock where nobody holds anything.
-- The head row is authoritative for the line, a holder row for its grant. Guards pin the holder row; who takes away locks the head,
-- which is never pinned, then the holder row. What counts holders is a statement begun after the head's row was locked.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- One row per shared lock or acquire of permits. Deleted by the release, or by whoever finds its session dead or its time over.
create table holders (
  key        text collate "C" not null,
  token      bigint not null,
  session    uuid not null,
  request    uuid not null,
  permits    int,                             -- how many of a semaphore's; null: a shared lock
  level      bigint not null,                 -- the last exclusive grant before it, or where this mode began: what a fence compares
  released   boolean not null default false,  -- to go as soon as nothing pins it
  forced_until timestamptz,                   -- as in `locks`
  context    uuid,
  granted_at timestamptz not null default clock_timestamp(),
  label      text,
  metadata   jsonb,
  primary key (key, token),
  -- Plain, as in `locks`: it finds what a session holds.
  unique (session, token)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
create index holders_request on holders (request);
create index holders_ending on holders (session) where released or forced_until is not null;

-- Makes a row that nobody holds the head of a kind: the ticket's. The caller holds it FOR UPDATE.
create function open_head(first waiters) returns void language plpgsql as $$
#variable_conflict use_column
begin
  update locks l set session = null, request = null, token = coalesce(l.token_to, l.token), token_to = null, mode = first.mode,
                     capacity = first.capacity, oldest = null, released = false, forced_until = null, delay = null, rests_until = null, context = null,
                     label = null, metadata = null
    where l.key = first.key;
end $$;

-- Grants to the head of a key's line, and to those behind it, while they fit. The caller holds the head FOR NO KEY UPDATE.
-- Answers as `hand_over` does; `kept`: those who are told are all.
create function serve(key text, caller uuid) returns answer[] language plpgsql as $$
#variable_conflict use_column
declare
  here     locks;
  first    waiters;
  holding  bigint;
  used     bigint;
  lowest   bigint;
  tickets  bigint[];
  alive    uuid[];
  last     bigint;
  -- In a quarantine, of those who are served.
  bound    bigint := (select c.newcomers_after from cluster c where c.quarantined_until > clock_timestamp());
  deferred boolean := false;
  told     answer[];
  result   answer[] := array[row(null, 'kept', null, null, null, null, null)::answer];
begin
  select * into here from locks l where l.key = serve.key;
  loop
    select count(*), coalesce(sum(h.permits), 0), min(h.token) into holding, used, lowest
      from holders h where h.key = serve.key and h.token >= coalesce(here.oldest, 0);
    -- Between two vacuums those who are gone lie in the way, as they do in a line.
    if lowest > coalesce(here.oldest, 0) + 100 then
      here.oldest := lowest;
      update locks l set oldest = here.oldest where l.key = serve.key;
    end if;
    select * into first from waiters w where w.key = serve.key and w.ticket > coalesce(here.served, 0) order by w.ticket limit 1;
    if not found then
      exit when holding > 0 or here.mode = 'permits';
      perform from locks l where l.key = serve.key for update skip locked;
      deferred := not found;
      exit when deferred;
      delete from locks l where l.key = serve.key;
      return result || row(null, 'free', null, null, null, null, null)::answer;
    end if;
    -- Also one that does not fit: it would keep from those behind it what they may have.
    if not exists (select from sessions s where s.id = first.session and s.died is null) then
      delete from waiters w where w.key = first.key and w.ticket = first.ticket;
      continue;
    end if;
    if first.mode is distinct from here.mode then
      exit when holding > 0;
      -- Nobody pins a head, but who came for what it was before may have it, in a transaction of the user's.
      perform from locks l where l.key = serve.key for update skip locked;
      deferred := not found;
      exit when deferred;
      return result || hand_over(serve.key, serve.caller);
    end if;
    -- A hundred at a time: of the same kind, one behind the other, while they fit.
    tickets := array(
      select f.ticket from (
        select w.ticket, bool_and(w.mode is not distinct from here.mode) over line as alike, sum(w.permits) over line as wanted
          from (select x.ticket, x.mode, x.permits from waiters x
                 where x.key = serve.key and x.ticket >= first.ticket order by x.ticket limit 100) w
        window line as (order by w.ticket)) f
       where f.alike and (here.mode = 'shared' or used + f.wanted <= here.capacity) and (f.ticket > bound) is not true
       order by f.ticket);
    exit when cardinality(tickets) = 0;
    alive := array(
      select s.id from sessions s
       where s.died is null and s.id = any (array(
         select w.session from waiters w where w.key = serve.key and w.ticket between tickets[1] and tickets[cardinality(tickets)]))
       order by s.id for key share skip locked);
    -- As in `hand_over`: nobody is passed over.
    deferred := first.session <> all (alive);
    exit when deferred;
    -- Up to the first whose session is locked or dead.
    last := (select max(w.ticket) from (
               select x.ticket, bool_and(x.session = any (alive)) over (order by x.ticket) as are_alive from waiters x
                where x.key = serve.key and x.ticket between tickets[1] and tickets[cardinality(tickets)]) w
              where w.are_alive);
    if here.token = 0 then here.token := (select c.base from cluster c) + nextval('fencing'); end if;
    with taken as (
      delete from waiters w where w.key = serve.key and w.ticket between first.ticket and last returning w.*),
    granted as (
      insert into holders (key, token, session, request, permits, level, context, label, metadata)
        select t.key, (select c.base from cluster c) + nextval('fencing'), t.session, t.request, t.permits, here.token, t.context,
               t.label, t.metadata
          from (select * from taken order by ticket) t
        returning request, token, session)
    select array_agg(case when g.session = serve.caller
                          then row(g.request, 'granted', g.token, serve.key, null, null, here.token)::answer
                          else row(null, 'handed', null, serve.key, s.channel, null, null)::answer end order by g.token)
      into told from granted g join sessions s on s.id = g.session;
    result := result || told;
    here.served := last;
  end loop;
  if here.mode = 'permits' and not deferred then result := result || let_follow(here, serve.caller, bound); end if;
  update locks l set token = here.token, served = here.served, released = deferred, contended = line.is_there
    from (select exists (select from waiters w where w.key = serve.key and w.ticket > coalesce(here.served, 0)) as is_there) line
    where l.key = serve.key
      and (l.token, l.served, l.released, l.contended) is distinct from (here.token, here.served, deferred, line.is_there);
  -- Else nobody was let in, and whoever called wrote what there was to write.
  if found then perform durable(); end if;
  return result;
end $$;

-- Permits are passed on inside a process: those at the head of a line whose session holds as many as they want may have
-- these when a handle there gives them back, without a call and in that order. A hundred at a time. They are in line all the
-- same, and are served as anybody is. The caller holds the head.
create function let_follow(head locks, caller uuid, bound bigint) returns answer[] language plpgsql as $$
#variable_conflict use_column
declare
  first waiters;
  told  answer[];
begin
  select * into first from waiters w where w.key = head.key and w.ticket > coalesce(head.served, 0) order by w.ticket limit 1;
  if not found or first.mode is distinct from 'permits' or not exists (
       select from holders h where h.key = head.key and h.session is not distinct from first.session and h.permits = first.permits
          and not h.released and h.forced_until is null) then
    return '{}';
  end if;
  with line as (
    select w.ticket, bool_and(w.is_alike) over (order by w.ticket) as follows, w.follows as is_told
      from (select x.ticket, x.follows, x.session = first.session and x.permits = first.permits and x.context is null
                             and (x.ticket > bound) is not true as is_alike
              from waiters x where x.key = head.key and x.ticket >= first.ticket order by x.ticket limit 100) w),
  marked as (
    update waiters w set follows = true
      where w.key = head.key and w.ticket = any (array(select l.ticket from line l where l.follows and l.is_told is null order by l.ticket))
      returning w.request, w.ticket)
  select array_agg(row(m.request, 'follows', null, head.key, null, null, head.token)::answer order by m.ticket) into told from marked m;
  if told is null then return '{}'; end if;
  perform durable();
  if first.session = let_follow.caller then return told; end if;
  return array(select row(null, 'handed', null, head.key, s.channel, null, null)::answer from sessions s where s.id = first.session);
end $$;

-- A request, with its place in the call.
create type asked as (
  place int, key text, request uuid, waits boolean, label text, metadata jsonb,
  mode text, permits int, capacity int, delay interval, context uuid, wide boolean
);

-- Lets in at once those who come to a head in whose line nobody stands: as many of the first of `wants`, in that order, as fit. It is
-- what `serve` would do for them, without a ticket for each (a third of the cost). The caller holds the head FOR NO KEY UPDATE and the
-- row of the session. Answers granted.
create function admit(here locks, session uuid, wants asked[]) returns setof answer language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
declare
  base   bigint;
  used   bigint;
  lowest bigint;
begin
  if here.contended or here.released or wants[1].mode is distinct from here.mode then return; end if;
  select c.base into base from cluster c where (c.quarantined_until > clock_timestamp()) is not true;
  if not found then return; end if;
  if here.mode = 'permits' then
    select coalesce(sum(h.permits), 0), min(h.token) into used, lowest
      from holders h where h.key = here.key and h.token >= coalesce(here.oldest, 0);
    if lowest > coalesce(here.oldest, 0) + 100 then update locks l set oldest = lowest where l.key = here.key; end if;
    if used + wants[1].permits > here.capacity then return; end if;
  end if;
  if here.token = 0 then
    here.token := base + nextval('fencing');
    update locks l set token = here.token where l.key = here.key;
  end if;
  return query
    with fitting as (
      select w.* from (
        select u.*, bool_and(u.mode is not distinct from here.mode) over line as alike, sum(u.permits) over line as wanted
          from unnest(wants) u window line as (order by u.place)) w
       where w.alike and (here.mode = 'shared' or used + w.wanted <= here.capacity) order by w.place),
    granted as (
      insert into holders (key, token, session, request, permits, level, context, label, metadata)
        select here.key, base + nextval('fencing'), admit.session, f.request, f.permits, here.token, f.context, f.label, f.metadata
          from fitting f
        returning request, token)
    select g.request, 'granted', g.token, here.key, null::text, null::double precision, here.token from granted g;
  perform durable();
end $$;

-- Ends the grants (keys[i], tokens[i]) of holders, whose heads the caller has locked. One that a guard pins is marked instead.
-- Returns the tokens of those that are gone.
create function end_holders(keys text[], tokens bigint[]) returns bigint[] language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
declare
  gone bigint[];
begin
  with mine as materialized (
    select r.place from unnest(keys, tokens) u(key, token) cross join lateral (
      select h.ctid as place from holders h where h.key = u.key and h.token = u.token for update skip locked) r),
  deleted as (
    delete from holders h where h.ctid = any (array(select m.place from mine m)) returning h.token)
  select coalesce(array_agg(d.token), '{}') into gone from deleted d;
  if cardinality(gone) < cardinality(tokens) then
    update holders h set released = true
      from unnest(keys, tokens) u(key, token) where h.key = u.key and h.token = u.token and not h.released;
    perform durable();
  end if;
  return gone;
end $$;

-- Ends the holders of a key that hold it no more: given back under a guard that has ended, taken by an operator, dead.
-- The caller has locked the head. True: there are fewer now.
create function reap_holders(key text, judged timestamptz) returns boolean language plpgsql as $$
#variable_conflict use_column
declare
  over bigint[];
begin
  over := array(select h.token from holders h
                 where h.key = reap_holders.key and (h.released or h.forced_until <= judged or not is_alive(h.session, judged)));
  if cardinality(over) = 0 then return false; end if;
  return cardinality(end_holders(array_fill(reap_holders.key, array[cardinality(over)]), over)) > 0;
end $$;

-- What `release` does for shared locks and permits. The caller has locked the heads of `locked`. `passed`: requests to which
-- permits were passed on: they have had them.
create function release_holders(session uuid, keys text[], tokens bigint[], locked text[], passed uuid[] default null) returns setof answer
  language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
declare
  own_keys   text[];
  own_tokens bigint[];
  gone       bigint[];
  place      text;
begin
  if passed is not null then
    delete from waiters w where w.request = any (passed) and w.key = any (locked) and w.session is not distinct from release_holders.session;
  end if;
  select coalesce(array_agg(h.key), '{}'), coalesce(array_agg(h.token), '{}') into own_keys, own_tokens
    from unnest(keys, tokens) u(key, token)
    cross join lateral (select x.key, x.token from holders x
                         where x.key = u.key and x.token = u.token and x.session = release_holders.session limit 1) h;
  gone := end_holders(array(select o.key from unnest(own_keys, own_tokens) o(key, token) where o.key = any (locked)),
                      array(select o.token from unnest(own_keys, own_tokens) o(key, token) where o.key = any (locked)));
  return query
    select null::uuid, case when u.token <> all (own_tokens) then 'absent' when u.key <> all (locked) then 'again'
                            when u.token = any (gone) then 'released' else 'pinned' end,
           u.token, u.key, null::text, null::double precision, null::bigint
      from unnest(keys, tokens) u(key, token);
  for place in select distinct o.key from unnest(own_keys, own_tokens) o(key, token) where o.token = any (gone) order by o.key loop
    -- Nobody is in line, and the head stays.
    continue when exists (
      select from locks l where l.key = place and not l.contended and not l.released
         and (l.mode = 'permits' or exists (select from holders h where h.key = place and h.token >= coalesce(l.oldest, 0))));
    return query select * from tell(serve(place, release_holders.session));
  end loop;
end $$;

-- Takes several keys at once for the request that wants them all, where it heads the line of each and nobody holds any. The caller
-- has locked their rows, and holds the session's row. Answers a grant for each key, or nothing.
create function take_all(session uuid, keys text[], request uuid) returns setof answer
  language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
begin
  if exists (
    select from unnest(take_all.keys) u(key)
      left join lateral (select l.served, l.session is null and l.mode is null and (l.rests_until > clock_timestamp()) is not true as is_free
                           from locks l where l.key = u.key limit 1) l on true
      left join lateral (select w.request from waiters w where w.key = u.key and w.ticket > coalesce(l.served, 0)
                          order by w.ticket limit 1) w on true
     where l.is_free is not true or w.request is distinct from take_all.request)
     or exists (select from cluster c join waiters w on w.request = take_all.request and w.ticket > c.newcomers_after
                 where c.quarantined_until > clock_timestamp()) then
    return;
  end if;
  -- As in `serve`: the next tick tries again.
  if (select count(*) from (select from locks l where l.key = any (take_all.keys) order by l.key for update skip locked) r)
     < (select count(distinct u.key) from unnest(take_all.keys) u(key)) then
    return;
  end if;
  return query
    with mine as (
      delete from waiters w where w.request = take_all.request returning w.*),
    taken as (
      update locks l set
        session = m.session, request = m.request, served = m.ticket, label = m.label, metadata = m.metadata,
        token = (select c.base from cluster c) + nextval('fencing'), delay = m.delay, rests_until = null, context = m.context,
        contended = exists (select from waiters w where w.key = m.key and w.ticket > m.ticket),
        released = false, forced_until = null, granted_at = clock_timestamp()
        from mine m where l.key = m.key
        returning l.request, l.token, l.key)
    select t.request, 'granted', t.token, t.key, null::text, null::double precision, null::bigint from taken t;
  perform durable();
end $$;

-- Makes an exclusive grant a shared one without letting go, and lets those in who fit beside it. The token stays, and is the level.
-- Answers granted (with the level), pinned (a guarded transaction is open: nothing was done) or absent, and what `serve` tells.
create function downgrade(session uuid, key text, token bigint, seen witness default null) returns setof answer
  language plpgsql security definer set search_path from current
  set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  held locks;
  own  waiters;
begin
  perform enter(downgrade.seen);
  perform lock_rows(array[downgrade.key]);
  select * into held from locks l
    where l.key = downgrade.key and l.session is not distinct from downgrade.session and l.mode is null and not l.released and l.forced_until is null
      and downgrade.token between l.token + 0 and coalesce(l.token_to, l.token);
  if not found then
    -- Repeated, since its answer was lost: that comes from a transaction that wrote.
    return query
      update holders h set granted_at = h.granted_at
        where h.key = downgrade.key and h.token = downgrade.token and h.session = downgrade.session and h.permits is null and not h.released
        returning h.request, 'granted', h.token, h.key, null::text, null::double precision, h.level;
    if not found then return next row(null, 'absent', downgrade.token, downgrade.key, null, null, null)::answer; end if;
    perform durable();
    return;
  end if;
  perform from locks l where l.key = held.key for update skip locked;
  if not found then
    return next row(null, 'pinned', downgrade.token, held.key, null, null, null)::answer;
    return;
  end if;
  -- Of a run, who had a turn is gone, and who has not is in line.
  if downgrade.token > held.token then
    delete from waiters w where w.key = held.key and w.ticket > coalesce(held.served, 0) and w.session is not distinct from held.session
                            and w.token = downgrade.token returning w.* into own;
    held.request := own.request;
    held.label := own.label;
    held.metadata := own.metadata;
  end if;
  -- It was given up, and others of the run are not through.
  if held.request is null then
    return next row(null, 'absent', downgrade.token, held.key, null, null, null)::answer;
    return;
  end if;
  if downgrade.token > held.token then
    delete from waiters w where w.key = held.key and w.ticket > coalesce(held.served, 0) and w.session is not distinct from held.session
                            and w.token > held.token and w.token < downgrade.token;
  end if;
  update waiters w set token = null
    where w.key = held.key and w.ticket > coalesce(held.served, 0) and w.session is not distinct from held.session and w.token is not null;
  insert into holders (key, token, session, request, level, context, label, metadata)
    values (held.key, downgrade.token, held.session, held.request, downgrade.token, held.context, held.label, held.metadata);
  update locks l set session = null, request = null, token = downgrade.token, token_to = null, mode = 'shared', oldest = downgrade.token, delay = null, context = null,
                     label = null, metadata = null
    where l.key = held.key;
  perform durable();
  return next row(held.request, 'granted', downgrade.token, held.key, null, null, downgrade.token)::answer;
  return query select * from tell(serve(held.key, downgrade.session));
end $$;

-- Says how many permits a semaphore has from now on. Who holds more than that keeps them; who asks under another number is refused.
-- Answers resized (level: how many it had) or absent, and what `serve` tells.
create function resize(session uuid, key text, capacity int, seen witness default null) returns setof answer
  language plpgsql security definer set search_path from current
  set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  had int;
begin
  perform enter(resize.seen);
  if resize.capacity is null or resize.capacity < 1 then
    raise exception 'fencepost: % is no number of permits', coalesce(resize.capacity::text, 'null') using errcode = 'FP005';
  end if;
  perform lock_rows(array[resize.key]);
  select l.capacity into had from locks l where l.key = resize.key and l.mode = 'permits';
  if not found then
    return next row(null, 'absent', null, resize.key, null, null, null)::answer;
    return;
  end if;
  update locks l set capacity = resize.capacity where l.key = resize.key;
  -- What can never fit would stop the line: it asks again, and is told.
  delete from waiters w where w.key = resize.key and w.permits > resize.capacity;
  perform durable();
  return next row(null, 'resized', null, resize.key, null, null, had)::answer;
  return query select * from tell(serve(resize.key, resize.session));
end $$;

update cluster set version = 4;

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function resize(uuid, text, int, witness);
drop function downgrade(uuid, text, bigint, witness);
drop function take_all(uuid, text[], uuid);
drop function release_holders(uuid, text[], bigint[], text[], uuid[]);
drop function reap_holders(text, timestamptz);
drop function end_holders(text[], bigint[]);
drop function admit(locks, uuid, asked[]);
drop type asked;
drop function serve(text, uuid);
drop function let_follow(locks, uuid, bigint);
drop function open_head(waiters);
drop table holders;
update cluster set version = 3;
