-- Up Migration
--
-- Who may do what, and how to call the queue from where the isolation level is not one's own.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Who holds what, and who waits for what. Request ids stay out of sight: they prove whose grant it is.
create view held as
  select g.key, g.token, s.owner, g.label, g.metadata, g.granted_at as since, s.expires_at, g.released,
         s.info, s.opened_at as session_since, g.mode, g.forced_until, g.permits, g.capacity
    from (select l.key, l.token, l.session, l.label, l.metadata, l.granted_at, l.released, 'exclusive' as mode, l.forced_until,
                 null::int as permits, null::int as capacity
            from locks l where l.session is not null
          union all
          select h.key, h.token, h.session, h.label, h.metadata, h.granted_at, h.released, l.mode, h.forced_until, h.permits, l.capacity
            from holders h join locks l on l.key = h.key) g
    left join sessions s on s.id = g.session;
create view pending as
  select w.key, w.ticket, row_number() over (partition by w.key order by w.ticket) as place, s.owner, w.label,
         w.metadata, w.enqueued_at as since, s.expires_at, s.info, coalesce(w.mode, 'exclusive') as mode, w.permits, w.capacity
    from waiters w left join sessions s on s.id = w.session;

-- Changes the settings that bind every client; null leaves one as it is.
-- max_ttl bounds every session's time to live. replication => 'synchronous' is the operator's word that no
-- acknowledged commit is lost in a failover.
create function configure(max_ttl interval default null, replication text default null)
  returns void language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
begin
  update cluster c set max_ttl = coalesce(configure.max_ttl, c.max_ttl),
                       replication = coalesce(configure.replication, c.replication);
  perform durable();
end $$;

-- One of the queue's functions by name, with arguments and answers as JSON; tokens as strings, for bigint does not fit
-- a JSON number everywhere.
create function dispatch(function text, arguments jsonb) returns jsonb
  language plpgsql security definer set search_path from current as $$
declare
  a        jsonb   := dispatch.arguments;
  session  uuid    := (a->>'session')::uuid;
  seen     witness := jsonb_populate_record(null::witness, a->'seen');
  keys     text[]  := array(select jsonb_array_elements_text(a->'keys'));
  requests uuid[]  := array(select e::uuid from jsonb_array_elements_text(a->'requests') e);
  durable  boolean := coalesce((a->>'durable')::boolean, true);
begin
  if dispatch.function in ('announce_schedule', 'leave_schedule', 'look_schedule', 'take_tick', 'end_tick', 'query_schedules', 'look_once',
                           'record_once') then
    return dispatch_schedule(dispatch.function, a);
  end if;
  return case dispatch.function
    when 'open_session' then (
      select jsonb_agg(jsonb_build_array(r.generation, r.boot, r.token_base::text, r.server_time))
        from open_session(session, (a->>'ttl')::interval, a->>'owner', a->>'channel', a->'info', seen) r)
    when 'heartbeat' then (
      select jsonb_agg(jsonb_build_array(r.renewed, r.boot, r.token_base::text, r.server_time, r.held, r.tokens::text,
                                         r.forced::text))
        from heartbeat(session, seen) r)
    when 'raise_generation' then jsonb_build_array(jsonb_build_array(
      raise_generation(session, (a->>'generation')::bigint, seen)))
    when 'turn' then jsonb_build_array(jsonb_build_array(
      turn(session, keys, array(select e::bigint from jsonb_array_elements_text(a->'tokens') e), seen,
        case when a ? 'requests' then requests end)::text))
    when 'waits_for' then (
      select jsonb_agg(jsonb_build_array(r.waiter, r.ticket::text, r.key, r.owner, r.blocker, r.alternative))
        from waits_for(session, (a->>'request')::uuid) r)
    when 'withdraw_presence' then jsonb_build_array(jsonb_build_array(
      withdraw_presence(session, (a->>'generation')::bigint, seen)))
    when 'clock_stepped' then jsonb_build_array(jsonb_build_array(clock_stepped(seen)))
    when 'settle' then (
      select jsonb_agg(jsonb_build_array(r.key, r.token::text, r.requests::text, r.tokens::text, r.last::text, r.forced)) from settle(session, seen) r)
    else (
      select jsonb_agg(jsonb_build_array(r.request, r.outcome, r.token::text, r.key, r.channel, r.expires_in, r.level::text)) from (
        select r.* from acquire(session, (a->>'generation')::bigint, keys, requests,
          array(select e::boolean from jsonb_array_elements_text(a->'wait') e),
          array(select jsonb_array_elements_text(a->'labels')),
          array(select nullif(e, 'null') from jsonb_array_elements(a->'metadata') e),
          nullif(array(select nullif(e, 'null') from jsonb_array_elements(a->'asks') e), '{}'), seen) r
         where dispatch.function = 'acquire'
        union all select r.* from release(session, keys, array(select e::bigint from jsonb_array_elements_text(a->'tokens') e), durable, seen,
          case when a ? 'passed' then array(select e::uuid from jsonb_array_elements_text(a->'passed') e) end) r
         where dispatch.function = 'release'
        union all select r.* from release_and_acquire(session, (a->>'generation')::bigint, keys[1], (a->'tokens'->>0)::bigint, requests,
          array(select jsonb_array_elements_text(a->'labels')),
          array(select nullif(e, 'null') from jsonb_array_elements(a->'metadata') e),
          nullif(array(select nullif(e, 'null') from jsonb_array_elements(a->'asks') e), '{}'), seen) r
         where dispatch.function = 'release_and_acquire'
        union all select r.* from cancel(session, keys, requests, durable, seen) r where dispatch.function = 'cancel'
        union all select r.* from tick(session, keys, requests, seen) r where dispatch.function = 'tick'
        union all select r.* from close_session(session, seen, coalesce((a->>'lost')::boolean, false)) r
         where dispatch.function = 'close_session'
        union all select r.* from downgrade(session, a->>'key', (a->>'token')::bigint, seen) r where dispatch.function = 'downgrade'
        union all select r.* from resize(session, a->>'key', (a->>'capacity')::int, seen) r where dispatch.function = 'resize') r)
  end;
end $$;

-- The same in a transaction of its own at read committed, in one round trip, wherever the default is another: behind a
-- transaction pooler, where a SET would leak, this is the way in. Invoker's rights and no SET clause, or it could not
-- end the transaction; hence the schema's name in its text.
do $do$ begin
  execute format($sql$
    create procedure %I.invoke(function text, arguments jsonb, inout result jsonb default null) language plpgsql as %L
  $sql$, current_schema(), format($body$
    begin
      rollback;
      set transaction isolation level read committed;
      result := %I.dispatch(function, arguments);
    end $body$, current_schema()));
end $do$;

-- Releases keys that are waited for, and wakes who has them next, in one round trip and two transactions: a NOTIFY in the
-- first would hold a lock of the whole cluster until its flush. `own` is the caller's channel, which hears it in the answer.
-- With requests it is one key, which is asked for anew. Answers what `release` or `release_and_acquire` does, but for what was
-- simply released. On a connection at read committed only; see `invoke`.
do $do$ begin
  execute format($sql$
    create procedure %1$I.release_and_notify(session uuid, keys text[], tokens bigint[], seen %1$I.witness, own text,
                                             generation bigint default null, requests uuid[] default null,
                                             labels text[] default null, metadata jsonb[] default null,
                                             asks jsonb[] default null, passed uuid[] default null, inout answers jsonb default null) language plpgsql as %2$L
  $sql$, current_schema(), format($body$
    declare
      told  %1$I.answer[];
      woken record;
    begin
      if requests is null then
        told := array(select r from %1$I.release(session, keys, tokens, false, seen, passed) r where r.outcome <> 'released');
      elsif cardinality(keys) is distinct from 1 or cardinality(tokens) is distinct from 1 then
        raise exception 'fencepost: want one key to ask for anew' using errcode = 'FP005';
      else
        told := array(select r from %1$I.release_and_acquire(session, generation, keys[1], tokens[1], requests, labels, metadata, asks, seen) r
                       where r.outcome <> 'released');
      end if;
      answers := (
        select jsonb_agg(jsonb_build_array(r.request, r.outcome, r.token::text, r.key,
                                           case when r.channel is not distinct from own then r.channel end, r.expires_in, r.level::text,
                                           case when r.channel is distinct from own then r.channel end))
          from unnest(told) r);
      if exists (select from jsonb_array_elements(answers) a where a->>7 is not null) then
        commit;
        perform set_config('synchronous_commit', 'off', true);
        for woken in
          select a->>7 as channel, json_agg(a->3)::text as payload
            from jsonb_array_elements(answers) a where a->>7 is not null group by 1
        loop
          begin
            perform pg_notify(woken.channel, case when octet_length(woken.payload) <= 7500 then woken.payload else '' end);
          exception when others then
            null;   -- a hint and no more: who waits looks within the poll interval
          end;
        end loop;
      end if;
    end $body$, current_schema()));
end $do$;

-- Takes from everybody what CREATE FUNCTION gives to everybody. Each migration that adds a function calls it.
create function close_to_public() returns void language plpgsql set search_path from current as $$
begin
  execute format('revoke all on all routines in schema %1$I from public', current_schema());
  execute format('revoke all on all tables in schema %1$I from public', current_schema());
end $$;
select close_to_public();

create function grant_routines(to_role name, names text[]) returns void language plpgsql set search_path from current as $$
declare
  routine regprocedure;
begin
  execute format('grant usage on schema %I to %I', current_schema(), to_role);
  for routine in
    select p.oid from pg_proc p where p.pronamespace = quote_ident(current_schema())::regnamespace and p.proname = any (names)
  loop
    execute format('grant execute on routine %s to %I', routine, to_role);
  end loop;
end $$;

-- What a program that takes locks needs: USAGE and EXECUTE, nothing more.
create function grant_application(role name) returns void language plpgsql set search_path from current as $$
begin
  perform grant_routines(role, array['open_session', 'heartbeat', 'raise_generation', 'clock_stepped', 'acquire',
    'release', 'release_and_acquire', 'turn', 'downgrade', 'resize', 'waits_for', 'cancel', 'tick', 'settle', 'close_session', 'dispatch', 'invoke', 'release_and_notify', 'pin', 'pin_again', 'assert_held', 'fence',
    'transaction_status', 'schema_version', 'present', 'presented_setting', 'fence_table', 'unfence_table', 'fenced',
    'advisory_lock_within', 'query', 'incarnation', 'announce_schedule', 'leave_schedule', 'look_schedule', 'take_tick', 'end_tick',
    'query_schedules', 'look_once', 'record_once', 'leader', 'show_presence', 'withdraw_presence', 'probe_presence', 'reap_absent']);
end $$;

-- What people on duty need besides: to see, to force, to set. Not the sessions in `events`.
create function grant_operator(role name) returns void language plpgsql set search_path from current as $$
begin
  perform grant_application(role);
  perform grant_routines(role, array['configure', 'force_release', 'raise_base', 'dispatch_operator', 'invoke_operator']);
  execute format('grant select on held, pending, schedules, schedule_drift, ticks to %I', role);
  execute format('grant select (id, at, what, role, by, reason, key, token, owner) on events to %I', role);
end $$;

-- What is installed, for a client that must know whether the two understand each other; and what the operator has said of the
-- server's replication, which the client compares with the server's settings.
create function schema_version() returns table (version int, compatible_from int, replication text)
  language sql stable security definer set search_path from current as $$
  select c.version, c.compatible_from, c.replication from cluster c
$$;

update cluster set version = 9;
select close_to_public();

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function schema_version();
drop function grant_operator(name);
drop function grant_application(name);
drop function grant_routines(name, text[]);
drop function close_to_public();
drop procedure release_and_notify(uuid, text[], bigint[], witness, text, bigint, uuid[], text[], jsonb[], jsonb[], uuid[], jsonb);
drop procedure invoke(text, jsonb, jsonb);
drop function dispatch(text, jsonb);
drop function configure(interval, text);
drop view pending, held;
update cluster set version = 8;
