-- The database's own record: what happened to grants, tickets and sessions, in the order in which it happened to each
-- key, since every one of these rows is written under the lock of the row that it tells of.
create schema audit;

-- Milliseconds by CLOCK_MONOTONIC, cut down to 10: the only clock that clients and server share when the wall clock
-- of either is moved.
create function audit.monotonic() returns float8 language sql volatile as $$
  select split_part(pg_read_file('/proc/uptime'), ' ', 1)::float8 * 1000
$$;

create table audit.journal (
  seq     bigserial primary key,
  at      float8 not null default audit.monotonic(),
  xid     text not null default pg_current_xact_id()::text,
  event   text not null,
  key     text,
  session uuid,
  request uuid,
  token   bigint,
  label   text,
  detail  jsonb not null default '{}'
);

create function audit.note(event text, key text, session uuid, request uuid, token bigint, label text, detail jsonb)
  returns void language sql as $$
  insert into audit.journal (event, key, session, request, token, label, detail)
    values (event, key, session, request, token, label, coalesce(detail, '{}'))
$$;

-- A row that is nobody's: a head, or closed for somebody who wants several, or to be handed over, or resting.
create function audit.unheld(l fencepost.locks) returns void language sql as $$
  select audit.note('unheld', l.key, null, null, null, null, jsonb_build_object('mode', l.mode, 'capacity', l.capacity,
    'level', l.token::text, 'marked', l.released, 'rests', l.rests_until > clock_timestamp()))
$$;

create function audit.on_locks() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
  if tg_op = 'DELETE' then
    perform audit.note('freed', old.key, old.session, old.request, old.token, old.label, null);
  elsif tg_op = 'INSERT' and new.session is not null then
    perform audit.note('granted', new.key, new.session, new.request, new.token, new.label, '{"by":"insert"}');
  elsif tg_op = 'INSERT' then
    perform audit.note('mended', new.key, null, null, new.token, null, null), audit.unheld(new);
  elsif new.session is null then
    if old.session is not null then
      perform audit.note('idle', old.key, old.session, old.request, old.token, old.label, null);
    end if;
    if (old.session, old.mode, old.capacity, old.token, old.released, old.rests_until)
       is distinct from (null, new.mode, new.capacity, new.token, new.released, new.rests_until) then
      perform audit.unheld(new);
    end if;
  elsif new.request is not distinct from old.request and new.token <> old.token then
    perform audit.note('renumbered', new.key, new.session, new.request, new.token, new.label,
                       jsonb_build_object('from', old.token::text));
  elsif new.session is distinct from old.session or new.token <> old.token then
    perform audit.note('granted', new.key, new.session, new.request, new.token, new.label,
                       jsonb_build_object('by', 'hand-over', 'from', old.token::text, 'idle', old.session is null));
  elsif new.released and not old.released then
    perform audit.note('marked', new.key, new.session, new.request, new.token, new.label, null);
  end if;
  return null;
end $$;
create trigger audit after insert or update or delete on fencepost.locks for each row execute function audit.on_locks();

-- Shared locks and permits, under the lock of their head.
create function audit.on_holders() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
  if tg_op = 'INSERT' then
    perform audit.note('joined', new.key, new.session, new.request, new.token, new.label,
                       jsonb_build_object('permits', new.permits, 'level', new.level::text));
  elsif tg_op = 'DELETE' then
    perform audit.note('left', old.key, old.session, old.request, old.token, old.label, null);
  -- Permits that were passed on are written to who has them.
  elsif (new.key, new.token, new.session, new.permits, new.level) is distinct from (old.key, old.token, old.session, old.permits, old.level)
        or new.permits is null and new.request <> old.request then
    perform audit.note('altered', new.key, new.session, new.request, new.token, new.label, to_jsonb(old));
  elsif new.released and not old.released then
    perform audit.note('pinned', new.key, new.session, new.request, new.token, new.label, null);
  end if;
  return null;
end $$;
create trigger audit after insert or update or delete on fencepost.holders for each row execute function audit.on_holders();

create function audit.on_waiters() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
  if tg_op = 'DELETE' then
    perform audit.note('unticket', old.key, old.session, old.request, null, old.label, jsonb_build_object('ticket', old.ticket));
  else
    perform audit.note('ticket', new.key, new.session, new.request, null, new.label, jsonb_build_object(
      'ticket', new.ticket, 'mode', new.mode, 'permits', new.permits, 'wide', new.wide));
  end if;
  return null;
end $$;
create trigger audit after insert or delete on fencepost.waiters for each row execute function audit.on_waiters();

-- A grant in advance: its turn comes within its process.
create function audit.on_turns() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform audit.note('run', new.key, new.session, new.request, new.token, new.label, null);
  return null;
end $$;
create trigger audit_turns after update of token on fencepost.waiters for each row when (new.token is not null)
  execute function audit.on_turns();
create trigger audit_turns_anew after insert on fencepost.waiters for each row when (new.token is not null)
  execute function audit.on_turns();

-- Permits that its process has may be passed on to it.
create function audit.on_follows() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform audit.note('follows', new.key, new.session, new.request, null, new.label, null);
  return null;
end $$;
create trigger audit_follows after update of follows on fencepost.waiters for each row execute function audit.on_follows();

create function audit.on_sessions() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
  if tg_op = 'INSERT' then
    perform audit.note('opened', null, new.id, null, null, new.owner, null);
  elsif old.died is null and new.died is not null then
    perform audit.note('died', null, new.id, null, null, new.owner, jsonb_build_object(
      'expired', old.expires_at <= clock_timestamp(), 'absent', current_query() like '%reap_absent%', 'ttl', extract(epoch from new.ttl) * 1000,
      'holds', (select count(*) from fencepost.locks l where l.session = new.id and not l.released)
               + (select count(*) from fencepost.holders h where h.session = new.id and not h.released)));
  elsif old.died is not null and new.expires_at > old.expires_at then
    perform audit.note('revived', null, new.id, null, null, new.owner, null);
  end if;
  return null;
end $$;
create trigger audit after insert or update on fencepost.sessions for each row execute function audit.on_sessions();

create function audit.on_cluster() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
  if new.boot <> old.boot then
    perform audit.note('incarnation', null, null, null, null, null, jsonb_build_object('base', new.base::text,
      'before', old.base::text, 'restarted', new.started_at <> old.started_at, 'timeline', new.timeline - old.timeline));
  elsif new.graced_at is distinct from old.graced_at then
    perform audit.note('graced', null, null, null, null, null, null);
  end if;
  return null;
end $$;
create trigger audit after update on fencepost.cluster for each row execute function audit.on_cluster();

-- Under the lock of its schedule's row, and while the lease of who writes it is pinned.
create function audit.on_ticks() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform audit.note('tick', null, null, null, new.token, null, jsonb_build_object('name', new.name,
    'slot', to_char(new.slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'state', new.state, 'attempt', new.attempt,
    'was', case when tg_op = 'UPDATE' then old.state end));
  return null;
end $$;
create trigger audit after insert or update on fencepost.ticks for each row execute function audit.on_ticks();

-- What the locks protect: a counter for each key, and a line for each write that says what it had read.
create schema data;
create table data.counters (key text primary key, value bigint not null default 0) with (fillfactor = 50);
create table data.ledger (id text primary key, key text not null, kind text not null, token bigint not null, seen bigint not null);
create function audit.on_ledger() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform audit.note('write', new.key, null, null, new.token, new.id, jsonb_build_object('kind', new.kind, 'seen', new.seen::text));
  return null;
end $$;
create trigger audit after insert on data.ledger for each row execute function audit.on_ledger();
