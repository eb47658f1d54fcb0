-- Up Migration
--
-- For people: to see who holds and who waits, to take a key from its holder, to raise the token base by hand.
--   held --force_release--> forced: no renewal extends it --given back by token, or its last renewal runs out--> next in line
--     |  now => true: no wait for the holder, who may believe in it for up to a ttl more
--     v
--   pinned by a guard: it moves on when that has ended, whatever was asked for
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Who holds and who waits, of one key or of all, as of one snapshot. For every role that may take locks: there is no
-- session and no request in it, so it gives nobody's lock away. Times in milliseconds, tokens as text.
create function query(key text default null) returns json
  language sql stable security definer set search_path from current as $$
  select json_build_object(
    'held', (
      select coalesce(json_agg(json_build_object(
        'key', h.key, 'token', h.token::text, 'mode', h.mode, 'permits', h.permits, 'capacity', h.capacity, 'owner', h.owner, 'host', h.info->'host', 'pid', h.info->'pid',
        'application', h.info->'application', 'label', h.label, 'metadata', h.metadata,
        'since', extract(epoch from h.since) * 1000, 'left',
        greatest(extract(epoch from least(h.expires_at, h.forced_until) - clock_timestamp()) * 1000, 0),
        'state', case when h.released then 'released' when h.forced_until is not null then 'forced' else 'held' end)
        order by h.key, h.token), '[]')
        from held h where query.key is null or h.key = query.key),
    'pending', (
      select coalesce(json_agg(json_build_object(
        'key', p.key, 'place', p.place, 'mode', p.mode, 'permits', p.permits, 'capacity', p.capacity, 'owner', p.owner, 'host', p.info->'host', 'pid', p.info->'pid',
        'application', p.info->'application', 'label', p.label, 'metadata', p.metadata,
        'since', extract(epoch from p.since) * 1000,
        'waited', greatest(extract(epoch from clock_timestamp() - p.since) * 1000, 0),
        'left', greatest(extract(epoch from p.expires_at - clock_timestamp()) * 1000, 0))
        order by p.key, p.place), '[]')
        from pending p where query.key is null or p.key = query.key))
$$;

-- Writes down what somebody did by hand, and clears away what was written long ago.
create function note(what text, reason text, by text, key text default null, token bigint default null,
                     session uuid default null, owner text default null) returns void language plpgsql as $$
begin
  if btrim(coalesce(note.reason, '')) = '' then
    raise exception 'fencepost: want a reason' using errcode = 'FP009', hint = 'It is kept in the table events.';
  end if;
  insert into events (at, what, reason, by, key, token, session, owner)
    values (clock_timestamp(), note.what, note.reason, note.by, note.key, note.token, note.session, note.owner);
  delete from events e where e.id = any (array(
    select o.id from (select x.id, x.at from events x order by x.id limit 1000) o
     where o.at < clock_timestamp() - interval '30 days'));
end $$;

-- Takes a key from its holder, whoever that is, from all of them, or only while it is held under `token`. Marked, the grant ends when the
-- holder gives it back, which it does once a heartbeat has told it, or when the last renewal before the mark runs out:
-- within one ttl. `now` does not wait for either: until its next heartbeat the old holder still believes that it holds.
-- Answers forced, released, pinned, absent or again (the key moved on at this moment) for each grant, and handed.
-- Errors: FP009 no reason was given.
create function force_release(key text, reason text, token bigint default null, now boolean default false,
                              by text default null, seen witness default null)
  returns setof answer
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
  judged  timestamptz;
  named   record;
  holder  sessions;
  ends    timestamptz;
  tokens  bigint[] := '{}';
  moved   answer[];
  result  answer;
begin
  perform enter(force_release.seen);
  judged := judged_at(force_release.seen);
  for named in select g.token, g.session from grants_of(force_release.key, force_release.token) g order by g.session loop
    tokens := tokens || named.token;
    -- The session first: a renewal that is in flight has ended before the mark is set by what it left, and one that comes
    -- later finds the mark. Nothing else is locked yet, so that this one may be waited for; of several, in id order.
    perform from sessions s where s.id = named.session for no key update;
  end loop;
  perform lock_rows(array[force_release.key]);
  for named in select g.* from grants_of(force_release.key, force_release.token) g where g.token = any (tokens) order by g.token loop
    select * into holder from sessions s where s.id = named.session;
    ends := least(named.forced_until, case when force_release.now then clock_timestamp()
                                           else coalesce(holder.expires_at, clock_timestamp()) end);
    if named.shares then
      update holders h set forced_until = ends where h.key = force_release.key and h.token = named.token;
    else
      update locks l set forced_until = ends where l.key = force_release.key;
    end if;
    perform note('forced', force_release.reason, force_release.by, force_release.key, named.token, named.session, holder.owner);
    result := row(null, 'forced', named.token, force_release.key, null, greatest(extract(epoch from ends - clock_timestamp()) * 1000, 0), null);
    if force_release.now or named.released or ends <= judged or holder.id is null or holder.died is not null then
      result.expires_in := null;
      if named.shares then
        result.outcome := case when cardinality(end_holders(array[force_release.key], array[named.token])) > 0 then 'released' else 'pinned' end;
        moved := moved || serve(force_release.key, null);
      else
        moved := take(force_release.key, null, not named.released);
        result.outcome := case moved[1].outcome when 'pinned' then 'pinned' else 'released' end;
      end if;
    end if;
    return next result;
  end loop;
  if not found then
    return next row(null, case when cardinality(tokens) > 0 and force_release.token is null then 'again' else 'absent' end,
                    force_release.token, force_release.key, null, null, null)::answer;
    return;
  end if;
  perform durable();
  return query select * from tell(moved);
end $$;

-- Who holds a key, exclusively or with others; under a token, of a run, or whoever does.
create function grants_of(key text, token bigint)
  returns table (token bigint, session uuid, shares boolean, released boolean, forced_until timestamptz)
  language sql as $$
  select l.token, l.session, false, l.released, l.forced_until from locks l
   where l.key = grants_of.key and l.session is not null and coalesce(grants_of.token, l.token) between l.token and coalesce(l.token_to, l.token)
  union all
  select h.token, h.session, true, h.released, h.forced_until from holders h
   where h.key = grants_of.key and h.token = coalesce(grants_of.token, h.token)
$$;

-- Raises the token base by hand: for what no incarnation tells of, above all a restore of data alone under a running
-- server, which puts old numbers back. Every grant from now on has a higher token than any that was drawn before.
-- Returns the base. Errors: FP009 no reason was given.
create function raise_base(reason text, by text default null, seen witness default null) returns bigint
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
  raised bigint;
begin
  perform enter(raise_base.seen);
  update cluster c set base = greatest(c.base + (1::bigint << 32), base_of(clock_timestamp()))
    returning c.base into raised;
  perform note('raised', raise_base.reason, raise_base.by);
  perform durable();
  return raised;
end $$;

-- Which life of the server this is, and from where tokens are counted in it; nulls: one that nobody has entered yet, or a
-- standby, where `here` cannot even be planned: the canary is unlogged. `quarantined_until`: newcomers are granted nothing before.
create function incarnation()
  returns table (boot uuid, base bigint, since timestamptz, standby boolean, quarantined_until timestamptz)
  language plpgsql stable security definer set search_path from current as $$
#variable_conflict use_column
begin
  if pg_is_in_recovery() then
    return query select null::uuid, null::bigint, null::timestamptz, true, null::timestamptz;
  else
    return query
      select h.boot, h.base, h.since, false, case when h.quarantined_until > clock_timestamp() then h.quarantined_until end
        from (values (true)) o(n) left join here h on true;
  end if;
end $$;

-- As `dispatch` and `invoke`, for the operator's functions.
create function dispatch_operator(function text, arguments jsonb) returns jsonb
  language plpgsql security definer set search_path from current as $$
declare
  a    jsonb   := dispatch_operator.arguments;
  seen witness := jsonb_populate_record(null::witness, a->'seen');
begin
  return case dispatch_operator.function
    when 'force_release' then (
      select jsonb_agg(jsonb_build_array(r.request, r.outcome, r.token::text, r.key, r.channel, r.expires_in, r.level::text))
        from force_release(a->>'key', a->>'reason', (a->>'token')::bigint, coalesce((a->>'now')::boolean, false), a->>'by', seen) r)
    when 'raise_base' then jsonb_build_array(jsonb_build_array(raise_base(a->>'reason', a->>'by', seen)::text))
  end;
end $$;

do $do$ begin
  execute format($sql$
    create procedure %I.invoke_operator(function text, arguments jsonb, inout result jsonb default null) language plpgsql as %L
  $sql$, current_schema(), format($body$
    begin
      rollback;
      set transaction isolation level read committed;
      result := %I.dispatch_operator(function, arguments);
    end $body$, current_schema()));
end $do$;

update cluster set version = 11;
select close_to_public();

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop procedure invoke_operator(text, jsonb, jsonb);
drop function dispatch_operator(text, jsonb);
drop function incarnation();
drop function raise_base(text, text, witness);
drop function grants_of(text, bigint);
drop function force_release(text, text, bigint, boolean, text, witness);
drop function note(text, text, text, text, bigint, uuid, text);
drop function query(text);
update cluster set version = 10;
