-- Up Migration
--
-- Work at times, and work once. A SCHEDULE is a name with a cron expression; a SLOT is a moment at which it is due, by this server's
-- clock; a TICK is the row of one slot. The cron expression is the clients' business: they say which slots there are, and a
-- slot is taken at its word only once its time has come here.
--   no row --its time has come--> due --started--> started --> finished | failed
--     |                            ^------------------' an attempt failed, or its runner was lost, and another is allowed
--     |--while another tick was not over--> skipped
--     '--nobody asked in time-----------> missed
-- A slot is decided once: what is not above `upto` has been. Who decides, starts and ends ticks holds the schedule's lease, an
-- ordinary exclusive lock, and pins it in the same transaction: who has lost it writes nothing.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- One row per schedule: what it is, by the definition that rules, and how far its slots are decided.
-- Deleted by an announcement of any schedule, one at a time, once nobody has announced it for 90 days.
create table schedules (
  name       text collate "C" primary key check (name <> '' and octet_length(name) <= 1000),
  definition jsonb not null check (definition ?& array['cron', 'timezone']),
  version    int,                             -- explicit: the higher one rules
  edition    int not null default 1,          -- counts the definitions that have ruled
  upto       timestamptz not null,            -- the last slot that is decided; ticks begin behind it
  busy_until timestamptz not null,            -- when the last tick that ran has ended
  said_at    timestamptz not null             -- when a node announced it last
) with (fillfactor = 60);

-- One row per schedule and process that runs it: its own definition, which may be another one than the one that rules.
-- Deleted when its process stops the schedule, or else by the next announcement, when it has not said anything for 15 minutes.
create table schedule_nodes (
  name       text collate "C" not null,
  node       uuid not null,
  definition jsonb not null,
  version    int,
  owner      text,                            -- a label for people
  since      timestamptz not null,
  said_at    timestamptz not null,
  primary key (name, node)
) with (fillfactor = 60);

-- One row per slot that has been decided. Deleted by whoever takes the next tick of the same schedule, 1,000 at a time, once
-- older than its retention and over: `upto` still tells that the slot was decided.
create table ticks (
  name        text collate "C" not null,
  slot        timestamptz not null,
  state       text not null check (state in ('due', 'started', 'finished', 'failed', 'skipped', 'missed')),
  attempt     int not null default 0,         -- how often it was started
  token       bigint,                         -- the lease under which it was started last
  recorded_at timestamptz not null,
  started_at  timestamptz,
  ended_at    timestamptz,
  owner       text,                           -- who started it last: a label for people
  error       text,                           -- of the last attempt
  primary key (name, slot)
) with (fillfactor = 60);
create index ticks_open on ticks (name, slot) where state in ('due', 'started');

-- One row per thing that was done once. Deleted by whoever records the next one, 1,000 at a time, once its time is over.
create table once (
  key        text collate "C" primary key check (key <> '' and octet_length(key) <= 1000),
  result     json,                            -- null: nothing was returned
  token      bigint not null,
  done_at    timestamptz not null,
  kept_until timestamptz not null
);
create index once_kept_until on once (kept_until);

-- The one clock by which all of this is judged.
create function schedule_time() returns timestamptz language sql as $$ select clock_timestamp() $$;

create function moment(milliseconds bigint) returns timestamptz language sql immutable as $$
  select timestamptz 'epoch' + milliseconds * interval '1 ms'
$$;
create function milliseconds(moment timestamptz) returns bigint language sql immutable as $$
  select (extract(epoch from moment) * 1000)::bigint
$$;

-- What is known of a schedule: `open` where a tick is due or started, `drifts` where the node that asks has another definition.
-- `slot` and `attempt`: of the tick that this very call has started. Slots in milliseconds since 1970.
create type schedule_state as (
  definition jsonb, version int, edition int, upto bigint, open boolean, drifts boolean, server_time double precision,
  slot bigint, attempt int
);

create function state_of_schedule(schedule text, node uuid default null) returns setof schedule_state language sql as $$
  select s.definition, s.version, s.edition, milliseconds(s.upto),
         exists (select from ticks t where t.name = s.name and t.state in ('due', 'started')),
         exists (select from schedule_nodes n where n.name = s.name and n.node = state_of_schedule.node and n.definition <> s.definition),
         (extract(epoch from schedule_time()) * 1000)::double precision, null::bigint, null::int
    from schedules s where s.name = state_of_schedule.schedule
$$;

-- Which definition rules: the highest version; else the one that rules already, while a node has it; else that of who came
-- first. With other times, slots count from now on: the new ones from before were never due. The caller has locked the schedule.
create function rule_schedule(schedule text, judged timestamptz) returns void language plpgsql as $$
declare
  known schedules;
  first schedule_nodes;
begin
  select * into known from schedules s where s.name = rule_schedule.schedule;
  select * into first from schedule_nodes n
    where n.name = rule_schedule.schedule
    order by n.version desc nulls last, (n.definition = known.definition) desc, n.since, n.node
    limit 1;
  if not found or (first.definition = known.definition and first.version is not distinct from known.version) then return; end if;
  update schedules s set
    definition = first.definition,
    version = first.version,
    edition = s.edition + 1,
    upto = case when first.definition->'cron' = known.definition->'cron' and first.definition->'timezone' = known.definition->'timezone'
                then s.upto else greatest(s.upto, rule_schedule.judged) end
    where s.name = rule_schedule.schedule;
end $$;

-- Says that a process runs a schedule, and as what. To be repeated every few minutes; repeating it is harmless.
create function announce_schedule(schedule text, node uuid, definition jsonb, version int default null, owner text default null)
  returns setof schedule_state language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
  judged    timestamptz := schedule_time();
  abandoned text;
begin
  loop
    insert into schedules (name, definition, version, upto, busy_until, said_at)
      values (announce_schedule.schedule, announce_schedule.definition, announce_schedule.version, judged, judged, judged)
      on conflict (name) do nothing;
    update schedules s set said_at = judged where s.name = announce_schedule.schedule;
    -- Else it was forgotten in between.
    exit when found;
  end loop;
  insert into schedule_nodes as n (name, node, definition, version, owner, since, said_at)
    values (announce_schedule.schedule, announce_schedule.node, announce_schedule.definition, announce_schedule.version,
            announce_schedule.owner, judged, judged)
    on conflict (name, node) do update set definition = excluded.definition, version = excluded.version, owner = excluded.owner,
                                           said_at = excluded.said_at;
  delete from schedule_nodes n where n.name = announce_schedule.schedule and n.said_at < judged - interval '15 minutes';
  perform rule_schedule(announce_schedule.schedule, judged);
  select s.name into abandoned from schedules s where s.said_at < judged - interval '90 days' limit 1 for update skip locked;
  if found then
    delete from ticks t where t.name = abandoned
      and t.slot = any (array(select o.slot from ticks o where o.name = abandoned order by o.slot limit 1000));
    delete from schedules s where s.name = abandoned and not exists (select from ticks t where t.name = abandoned);
    delete from schedule_nodes n where n.name = abandoned;
  end if;
  perform durable();
  return query select * from state_of_schedule(announce_schedule.schedule, announce_schedule.node);
end $$;

-- Says that a process runs it no more.
create function leave_schedule(schedule text, node uuid) returns void
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
begin
  perform from schedules s where s.name = leave_schedule.schedule for no key update;
  delete from schedule_nodes n where n.name = leave_schedule.schedule and n.node = leave_schedule.node;
  perform rule_schedule(leave_schedule.schedule, schedule_time());
  perform durable();
end $$;

-- Reads. No row: nobody has announced it yet, or it was forgotten.
create function look_schedule(schedule text, node uuid) returns setof schedule_state
  language sql security definer set search_path from current as $$
  select * from state_of_schedule(look_schedule.schedule, look_schedule.node)
$$;

-- For who holds the lease: records slots whose time has come, and starts the first tick that is due, if `starts`; else the holder
-- is still busy with another one. `followed`: later slots are due as well and come in another call, so that these are missed.
-- Of another edition nothing is recorded: the caller computes its slots anew. Repeating it is harmless: a tick that was started
-- under this very lease is not over, and is the answer again.
-- Errors: FP003 the lease is not held; FP011 no such schedule.
create function take_tick(schedule text, token bigint, edition int, slots bigint[], owner text default null,
                          starts boolean default true, followed boolean default false)
  returns setof schedule_state language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
  judged timestamptz;
  known  schedules;
  begun  ticks;
  result schedule_state;
begin
  perform assert_held(take_tick.schedule || ':schedule', take_tick.token);
  select * into known from schedules s where s.name = take_tick.schedule for no key update;
  if not found then
    raise exception 'fencepost: % is no schedule', quote_literal(take_tick.schedule)
      using errcode = 'FP011', hint = 'Call announce_schedule first.';
  end if;
  judged := schedule_time();
  perform durable();
  -- Nobody but who holds the lease runs a tick: under another token it was lost.
  update ticks t set
    state = case when t.attempt < coalesce((known.definition->>'attempts')::int, 1) then 'due' else 'failed' end,
    ended_at = judged,
    error = 'its runner was lost'
    where t.name = known.name and t.state = 'started' and t.token is distinct from take_tick.token;
  if take_tick.edition = known.edition then
    perform record_ticks(known, take_tick.slots, judged, not take_tick.starts, take_tick.followed);
    if take_tick.starts and not take_tick.followed then
      select * into begun from ticks t where t.name = known.name and t.state = 'started' limit 1;
      if not found then
        update ticks t set state = 'started', attempt = t.attempt + 1, token = take_tick.token, owner = take_tick.owner,
                           started_at = judged, ended_at = null, error = null
          where t.name = known.name
            and t.slot = (select o.slot from ticks o where o.name = known.name and o.state = 'due' order by o.slot limit 1)
          returning * into begun;
      end if;
    end if;
  end if;
  select * into result from state_of_schedule(known.name);
  result.slot := milliseconds(begun.slot);
  result.attempt := begun.attempt;
  return next result;
end $$;

-- Decides what becomes of slots. Those that came while another tick was not over are skipped, or queue. Of the others the last
-- one runs if it is not late; of late ones as many run as the policy says, the latest; what does not run is missed. So are those
-- for which there is no room in the queue.
create function record_ticks(known schedules, slots bigint[], judged timestamptz, busy boolean, followed boolean) returns void
  language plpgsql as $$
declare
  d     jsonb       := known.definition;
  most  int         := coalesce((d->>'missedLimit')::int, 24);
  sway  interval    := coalesce((d->>'jitter')::bigint, 0) * interval '1 ms';
  late  interval    := coalesce((d->>'startWithin')::bigint, 60000) * interval '1 ms' + sway;
  queue boolean     := coalesce(d->>'overlap', 'skip') = 'queue';
  due   timestamptz[];
  runs  int;
  room  int;
begin
  due := array(select distinct moment(s.slot) from unnest(record_ticks.slots) s(slot)
                where moment(s.slot) > known.upto and moment(s.slot) <= record_ticks.judged order by 1);
  if cardinality(due) > 0 then
    runs := case when record_ticks.followed then 0
                 when d->>'missed' = 'all' then most
                 when d->>'missed' = 'once' or due[cardinality(due)] >= record_ticks.judged - late then 1
                 else 0 end;
    busy := busy or exists (select from ticks t where t.name = known.name and t.state in ('due', 'started'));
    room := most - (select count(*) from ticks t where t.name = known.name and t.state = 'due');
    insert into ticks (name, slot, state, recorded_at)
      select known.name, s.slot,
             case when s.overlaps and not queue then 'skipped'
                  when s.behind < case when s.overlaps and not record_ticks.followed then room else runs end then 'due'
                  else 'missed' end,
             record_ticks.judged
        from (select u.slot, cardinality(due) - u.place as behind, busy or u.slot + sway <= known.busy_until as overlaps
                from unnest(due) with ordinality u(slot, place)) s
      on conflict (name, slot) do nothing;
    update schedules s set upto = due[cardinality(due)] where s.name = known.name;
  end if;
  delete from ticks t where t.name = known.name and t.slot = any (array(
    select o.slot from ticks o
     where o.name = known.name and o.state not in ('due', 'started')
       and o.slot < record_ticks.judged - coalesce((d->>'retention')::bigint, 604800000) * interval '1 ms'
     order by o.slot limit 1000));
end $$;

-- For who holds the lease: how an attempt has ended. Where it failed and another is allowed, the tick is due again.
-- Repeating it is harmless. False: the tick was not started under this lease, or has been ended otherwise.
-- Errors: FP003 the lease is not held.
create function end_tick(schedule text, token bigint, slot bigint, attempt int, failed boolean, error text default null)
  returns boolean
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
  known   schedules;
  judged  timestamptz;
  becomes text;
begin
  perform assert_held(end_tick.schedule || ':schedule', end_tick.token);
  select * into known from schedules s where s.name = end_tick.schedule for no key update;
  judged := schedule_time();
  becomes := case when not end_tick.failed then 'finished'
                  when end_tick.attempt >= coalesce((known.definition->>'attempts')::int, 1) then 'failed'
                  else 'due' end;
  perform durable();
  update ticks t set state = becomes, ended_at = judged, error = end_tick.error
    where t.name = end_tick.schedule and t.slot = moment(end_tick.slot) and t.token = end_tick.token
      and t.attempt = end_tick.attempt and t.state = 'started';
  if found then
    update schedules s set busy_until = greatest(s.busy_until, judged) where s.name = end_tick.schedule;
    return true;
  end if;
  return exists (select from ticks t where t.name = end_tick.schedule and t.slot = moment(end_tick.slot) and t.token = end_tick.token
                                       and t.attempt = end_tick.attempt and t.state = becomes);
end $$;

-- What was done once and is kept. No row: it was not done, or that is too long ago.
create function look_once(key text) returns table (result json)
  language sql stable security definer set search_path from current as $$
  select o.result from once o where o.key = look_once.key and o.kept_until > schedule_time()
$$;

-- For who holds the lease: what came of it, and for how many milliseconds that is kept. Repeating it is harmless.
-- Errors: FP003 the lease is not held.
create function record_once(key text, token bigint, result json, within bigint) returns void
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
  judged timestamptz;
begin
  perform assert_held(record_once.key || ':once', record_once.token);
  judged := schedule_time();
  insert into once as o (key, result, token, done_at, kept_until)
    values (record_once.key, record_once.result, record_once.token, judged, judged + record_once.within * interval '1 ms')
    on conflict (key) do update set result = excluded.result, token = excluded.token, done_at = excluded.done_at,
                                    kept_until = excluded.kept_until
      where o.token < excluded.token;
  delete from once o where o.key = any (array(
    select x.key from once x where x.kept_until <= judged order by x.kept_until limit 1000 for update skip locked));
  perform durable();
end $$;

-- For people: who runs a schedule otherwise than it is ruled.
create view schedule_drift as
  select n.name, n.owner, n.definition, n.version, s.definition as ruling, s.version as ruling_version, n.since, n.said_at
    from schedule_nodes n join schedules s on s.name = n.name
   where n.definition <> s.definition;

-- All schedules as of one snapshot, for every role that may run them. Times in milliseconds since 1970.
create function query_schedules() returns json language sql stable security definer set search_path from current as $$
  select coalesce(json_agg(json_build_object(
    'name', s.name, 'definition', s.definition, 'version', s.version, 'upto', milliseconds(s.upto),
    'now', milliseconds(schedule_time()),
    'nodes', (select count(*) from schedule_nodes n where n.name = s.name),
    'drift', (select coalesce(json_agg(json_build_object('owner', d.owner, 'definition', d.definition, 'version', d.version)
                                       order by d.since), '[]') from schedule_drift d where d.name = s.name),
    'counts', (select coalesce(json_object_agg(c.state, c.n), '{}')
                 from (select t.state, count(*) as n from ticks t where t.name = s.name group by t.state) c),
    'last', (select json_build_object('slot', milliseconds(t.slot), 'state', t.state, 'attempt', t.attempt, 'owner', t.owner, 'error', t.error,
                                      'startedAt', milliseconds(t.started_at), 'endedAt', milliseconds(t.ended_at))
               from ticks t where t.name = s.name order by t.slot desc limit 1)) order by s.name), '[]')
    from schedules s
$$;

-- As `dispatch`, which calls it.
create function dispatch_schedule(function text, a jsonb) returns jsonb language plpgsql as $$
begin
  return case dispatch_schedule.function
    when 'leave_schedule' then jsonb_build_array(jsonb_build_array(leave_schedule(a->>'schedule', (a->>'node')::uuid)::text))
    when 'end_tick' then jsonb_build_array(jsonb_build_array(
      end_tick(a->>'schedule', (a->>'token')::bigint, (a->>'slot')::bigint, (a->>'attempt')::int, (a->>'failed')::boolean, a->>'error')))
    when 'look_once' then (select jsonb_agg(jsonb_build_array(r.result::text)) from look_once(a->>'key') r)
    when 'record_once' then jsonb_build_array(jsonb_build_array(
      record_once(a->>'key', (a->>'token')::bigint, (a->>'result')::json, (a->>'within')::bigint)::text))
    when 'query_schedules' then jsonb_build_array(jsonb_build_array(query_schedules()::text))
    else (
      select jsonb_agg(jsonb_build_array(r.definition::text, r.version, r.edition, r.upto, r.open, r.drifts, r.server_time, r.slot, r.attempt))
        from (
          select r.* from announce_schedule(a->>'schedule', (a->>'node')::uuid, a->'definition', (a->>'version')::int, a->>'owner') r
           where dispatch_schedule.function = 'announce_schedule'
          union all select r.* from look_schedule(a->>'schedule', (a->>'node')::uuid) r where dispatch_schedule.function = 'look_schedule'
          union all select r.* from take_tick(a->>'schedule', (a->>'token')::bigint, (a->>'edition')::int,
              array(select e::bigint from jsonb_array_elements_text(a->'slots') e), a->>'owner', (a->>'starts')::boolean,
              (a->>'followed')::boolean) r
           where dispatch_schedule.function = 'take_tick') r)
  end;
end $$;

update cluster set version = 13;
select close_to_public();

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function dispatch_schedule(text, jsonb);
drop function query_schedules();
drop view schedule_drift;
drop function record_once(text, bigint, json, bigint);
drop function look_once(text);
drop function end_tick(text, bigint, bigint, int, boolean, text);
drop function record_ticks(schedules, bigint[], timestamptz, boolean, boolean);
drop function take_tick(text, bigint, int, bigint[], text, boolean, boolean);
drop function look_schedule(text, uuid);
drop function leave_schedule(text, uuid);
drop function announce_schedule(text, uuid, jsonb, int, text);
drop function rule_schedule(text, timestamptz);
drop function state_of_schedule(text, uuid);
drop type schedule_state;
drop function milliseconds(timestamptz);
drop function moment(bigint);
drop function schedule_time();
drop table once, ticks, schedule_nodes, schedules;
update cluster set version = 12;
