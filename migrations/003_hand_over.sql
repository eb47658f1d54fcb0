-- Up Migration
--
-- A key and its line.
--   no row --acquire--> held --release, nobody waits--> no row
--                       held --enqueue--> held, contended --release--> held by the head of the line
--                       held --release under a guard--> held, released --(any later call that meets it)--> as above
--                       the head's session cannot be locked --> nobody's, released --(its locker, or a tick)--> as above
-- A RUN: a hand-over grants to the head, and in advance to the tickets of the same session right behind it, each under the
-- next number. Inside their process they take turns without a call; the tickets of those that had theirs go at the release.
-- The row is authoritative. Who takes a grant away takes two steps: FOR NO KEY UPDATE in key order, which waits only
-- for short calls of this protocol, then FOR UPDATE SKIP LOCKED, which skips nothing but a guard.
-- Lock order, everywhere: cluster, reaper, sessions, lock rows by key, tickets; sessions of others with SKIP LOCKED.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- One row per key in use. Deleted by the release that finds nobody waiting.
create table locks (
  key        text collate "C" primary key check (key <> '' and octet_length(key) <= 1000),
  session    uuid,                            -- null: nobody holds it, and the next call that meets it hands it over
  request    uuid,                            -- the acquire that was granted
  token      bigint not null,
  token_to   bigint,                          -- the last of a run; null: it is none
  contended  boolean not null default false,  -- somebody may be waiting
  released   boolean not null default false,  -- to be handed over as soon as nothing pins it
  served     bigint,                          -- every ticket of the key up to this one is gone: a scan of its line begins here
  forced_until timestamptz,                   -- an operator took it: no renewal extends it beyond this moment
  granted_at timestamptz not null default clock_timestamp(),
  label      text,
  metadata   jsonb,
  -- Plain: not partial, not deferrable, without `contended`, `released` and `forced_until`. It finds a session's grants, and it makes
  -- every change of holder a key update, so that a guard's FOR KEY SHARE cannot pass on an old row version.
  unique (session, token)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
create index locks_ending on locks (session) where released or forced_until is not null;

-- The lines. A ticket exists => its key has a row in `locks` that is contended. It is drawn under the lock of that row, so they
-- rise along the line; and between two vacuums a hot key leaves a million of them behind, past which no scan must go. Nor one by its session:
-- hence `is not distinct from`, which is no condition for an index.
-- Deleted by the hand-over that grants it, by the release of its run, by cancel, and by whoever buries its session.
create table waiters (
  ticket      bigint generated always as identity,
  key         text collate "C" not null,
  session     uuid not null,
  request     uuid not null,
  enqueued_at timestamptz not null default clock_timestamp(),
  label       text,
  metadata    jsonb,
  token       bigint,                         -- in the run of a row that this session holds under a lower one: its turn comes
  primary key (key, ticket)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- Under a collation of its own, which compares the same, so that no condition on a key alone is one for this index: to a planner
-- that takes the table for empty, all of it costs as much to read as one line.
create unique index waiters_request on waiters (request, key collate "POSIX");
create index waiters_session on waiters (session);

-- What people did by hand: who, when, why. Written by `force_release` and `raise_base`, which delete what is older than
-- thirty days, a thousand rows at a time.
create table events (
  id      bigint generated always as identity primary key,
  at      timestamptz not null default clock_timestamp(),
  what    text not null check (what in ('forced', 'raised')),
  role    text not null default session_user, -- as which they had logged in
  by      text,                               -- what they called themselves
  reason  text not null,
  key     text collate "C",
  token   bigint,
  session uuid,                               -- whose grant it was: kept from everybody, it is as good as a key
  owner   text
);
create index events_session on events (session) where session is not null;

-- What every queue function answers with, a row for each thing that happened:
--   granted   request, token, key             you hold it; no request: somebody in the run of this grant does
--   follows   request, token, key             in the run of the grant that is answered with it: yours after the number before
--   queued    request, expires_in             in line; look again at the latest when the holder's session expires
--   busy      request, expires_in             a try that found it taken
--   again     request | token, key            not decided: send the same again
--   dead      request                         your session is over
--   cancelled request                         its ticket is gone
--   released  token, key                      you no longer hold it
--   forced    token, key, expires_in          marked: it moves on when its holder gives it back, and then at the latest
--   pinned    token, key                      the same, but a guarded transaction is still open: it goes on after that
--   absent    token, key | request            nothing of yours was there
--   handed    key, channel                    somebody else's grant: notify that channel once this has committed
create type answer as (
  request uuid, outcome text, token bigint, key text, channel text,
  expires_in double precision                 -- milliseconds
);


-- Milliseconds until the session of a key's holder expires, or what was forced ends: a waiter looks again no later.
create function expires_in(session uuid, forced_until timestamptz) returns double precision language plpgsql as $$
begin
  return (select greatest(extract(epoch from least(s.expires_at, expires_in.forced_until) - clock_timestamp()) * 1000, 0)
            from sessions s where s.id = expires_in.session);
end $$;

-- Gives a key to the head of its line, or deletes it. The caller holds its row FOR UPDATE.
-- Answers `granted` for a ticket of the caller's own session (`tell` says to whom), `handed` for another's, `free`, or
-- `deferred`: the head's session is locked by somebody else; nobody is passed over, and who holds it, or the next tick, hands over.
create function hand_over(key text, caller uuid) returns answer language plpgsql as $$
#variable_conflict use_column
declare
  head   waiters;
  behind waiters;
  alive  sessions;
  served bigint := (select coalesce(l.served, 0) from locks l where l.key = hand_over.key);
  result answer;
begin
  loop
    select * into head from waiters w where w.key = hand_over.key and w.ticket > served order by w.ticket limit 1;
    if not found then
      delete from locks l where l.key = hand_over.key;
      result.outcome := 'free';
      return result;
    end if;
    select * into alive from sessions s where s.id = head.session and s.died is null for key share skip locked;
    if not found then
      if exists (select from sessions s where s.id = head.session and s.died is null) then
        update locks l set session = null, request = null, released = true, contended = true where l.key = hand_over.key;
        perform durable();
        result.outcome := 'deferred';
        return result;
      end if;
      delete from waiters w where w.key = head.key and w.ticket = head.ticket;
      continue;
    end if;
    -- No row: it was cancelled meanwhile, and its cancel will find nothing granted.
    delete from waiters w where w.key = head.key and w.ticket = head.ticket;
    continue when not found;
    select * into behind from waiters w where w.key = hand_over.key and w.ticket > head.ticket order by w.ticket limit 1;
    update locks l set
      session = head.session, request = head.request, served = head.ticket, label = head.label, metadata = head.metadata,
      token = (select c.base from cluster c) + nextval('fencing'), token_to = null,
      contended = behind.key is not null, released = false, forced_until = null, granted_at = clock_timestamp()
      where l.key = hand_over.key
      returning l.token into result.token;
    if behind.session = head.session then perform begin_run(hand_over.key, head.session, result.token); end if;
    perform durable();
    result.key := hand_over.key;
    if head.session = hand_over.caller then
      result.outcome := 'granted';
    else
      result.outcome := 'handed';
      result.token := null;
      result.channel := alive.channel;
    end if;
    return result;
  end loop;
end $$;

-- Grants in advance: to the tickets at the head of a line that are of the holder's session, a hundred at most, under the
-- numbers that follow its token. Drawn here, after the row is ours; it ends where somebody else drew one in between, so
-- that no number is another key's as well.
create function begin_run(key text, session uuid, token bigint) returns void language plpgsql as $$
#variable_conflict use_column
declare
  tickets bigint[];
  length  int;
begin
  tickets := array(
    select a.ticket from (
      select w.ticket, bool_and(w.session = begin_run.session) over (order by w.ticket) as ours
        from (select x.ticket, x.session from waiters x
               where x.key = begin_run.key and x.ticket > (select coalesce(l.served, 0) from locks l where l.key = begin_run.key)
               order by x.ticket limit 100) w) a
     where a.ours order by a.ticket);
  with drawn as materialized (
    select u.place, (select c.base from cluster c) + nextval('fencing') as number
      from generate_series(1, cardinality(tickets)) u(place))
  select count(*) into length from drawn d where d.number = begin_run.token + d.place;
  if length = 0 then return; end if;
  -- Nobody else's is between them. As a range, for an index may be read by the key alone where single tickets are asked for (14).
  update waiters w set token = begin_run.token + array_position(tickets, w.ticket)
    where w.key = begin_run.key and w.ticket between tickets[1] and tickets[length];
  update locks l set token_to = begin_run.token + length where l.key = begin_run.key;
end $$;

-- What a hand-over has to say: to others that their channel is to be notified, to one's own who has it and who follows.
create function tell(moved answer, caller uuid) returns setof answer language plpgsql as $$
#variable_conflict use_column
begin
  if (tell.moved).outcome = 'handed' then
    return next tell.moved;
  elsif (tell.moved).outcome = 'granted' then
    return query select * from members((tell.moved).key, tell.caller);
  end if;
end $$;

-- A grant of a session, and who follows in its run.
create function members(key text, session uuid) returns setof answer language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
declare
  held locks;
begin
  select * into held from locks l where l.key = members.key and l.session is not distinct from members.session;
  if not found then return; end if;
  return next row(held.request, 'granted', held.token, held.key, null, null)::answer;
  if held.token_to is null then return; end if;
  return query
    select w.request, 'follows', w.token, w.key, null::text, null::double precision from waiters w
     where w.key = held.key and w.ticket > coalesce(held.served, 0) and w.session is not distinct from held.session and w.token > held.token
     order by w.token;
end $$;

-- Takes a key from its holder and hands it over. The caller holds its row FOR NO KEY UPDATE. A guard is not waited
-- for: the row is marked, new guards are refused by the mark, and the next call that meets it hands over (`pinned`).
create function take(key text, caller uuid) returns answer language plpgsql as $$
#variable_conflict use_column
declare
  result answer;
begin
  perform from locks l where l.key = take.key for update skip locked;
  if found then return hand_over(take.key, take.caller); end if;
  update locks l set released = true where l.key = take.key and not l.released;
  perform durable();
  result.key := take.key;
  result.outcome := 'pinned';
  return result;
end $$;

-- Locks the rows of these keys that exist, in key order, and returns their keys.
create function lock_rows(keys text[]) returns text[] language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
begin
  return (select coalesce(array_agg(r.key), '{}') from (
    select l.key from locks l where l.key = any (keys) order by l.key for no key update) r);
end $$;

update cluster set version = 3;

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function lock_rows(text[]);
drop function take(text, uuid);
drop function tell(answer, uuid);
drop function members(text, uuid);
drop function begin_run(text, uuid, bigint);
drop function hand_over(text, uuid);
drop function expires_in(uuid, timestamptz);
drop type answer;
drop table events, waiters, locks;
update cluster set version = 2;
