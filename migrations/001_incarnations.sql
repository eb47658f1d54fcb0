-- Up Migration
--
-- Fencepost's protocol begins here; docs/protocol.md argues its rules. Four words first: a SESSION is a client process
-- with a time to live; a GRANT is a row of `locks` that names a session; a TICKET is a place in a key's line; an
-- INCARNATION is one life of the server, from a start, a crash recovery or a promotion to the next.
--
-- Which life of the server is this? Every function that judges an expiry or draws a token asks first (`enter`).
-- States of a schema:  known incarnation --(start, crash recovery, promotion, restore)--> unknown
--                      unknown --(first call that sees it: new base, new canary, grace)--> known
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- One row: which server this is, from where tokens are counted, and the settings that bind every client.
-- Deleted by nobody.
create table cluster (
  singleton         boolean primary key default true check (singleton),
  version           int not null,             -- of this schema: the number of the last migration applied
  compatible_from   int not null,             -- the oldest version whose clients still understand this schema
  boot              uuid not null,            -- names the incarnation; equal to canary.boot while it lasts
  system_identifier bigint not null,
  timeline          bigint not null,
  database_oid      oid not null,
  cluster_oid       oid not null,             -- of this very table: a restored copy has another
  started_at        timestamptz not null,     -- of the postmaster
  since             timestamptz not null,     -- when the incarnation was first seen
  base              bigint not null,          -- token = base + nextval('fencing')
  graced_at         timestamptz,              -- the last grace for a step of the server's clock
  quarantined_until timestamptz,              -- till then a grant that is lost here may be believed in by its holder,
  newcomers_after   bigint,                   -- and nobody is granted a key whose ticket is above this one
  max_ttl           interval not null default '60s' check (max_ttl between '1s' and '1 day'),
  replication       text not null default 'asynchronous' check (replication in ('asynchronous', 'synchronous'))
);

-- One row equal to cluster.boot. Unlogged on purpose: a crash recovery or a promotion empties it, also one that keeps
-- the postmaster (and with it the start time). Nothing else tells of that.
create unlogged table canary (boot uuid not null);

-- The numbers of tokens. `cache 1, no cycle`: two backends must never draw out of order.
create sequence fencing cache 1 no cycle;
select nextval('fencing');                    -- from here on last_value tells what was drawn

-- What a caller has seen, given with every call: the highest token base; the server's time in the last answer that
-- carried one (milliseconds since 1970), and the milliseconds since then by the caller's monotonic clock.
create type witness as (base bigint, server_time double precision, elapsed double precision);

create function server_time() returns double precision language sql as $$
  select (extract(epoch from clock_timestamp()) * 1000)::double precision
$$;

-- Refuses to take the schema away from under somebody.
create function refuse_while_in_use() returns void language plpgsql set search_path from current as $$
begin
  lock table sessions in access exclusive mode;   -- one may be opening just now
  if exists (select from sessions where died is null and expires_at > clock_timestamp()) then
    raise exception 'fencepost: sessions are alive in schema %', current_schema()
      using errcode = 'FP006', hint = 'Close the clients, or wait until their sessions have expired.';
  end if;
end $$;

-- Right at once after a promotion and open to every role; pg_control_checkpoint() is stale.
create function timeline() returns bigint language sql as $$
  select ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint
$$;

-- The base that a moment has by the clock: good until 2094, and it rises where a counter may be among lost commits.
create function base_of(moment timestamptz) returns bigint language sql as $$
  select floor(extract(epoch from moment - timestamptz '2026-01-01 00:00:00+00'))::bigint << 32
$$;

-- A commit that others build on is durable whatever the role's default. Set in the body: a SET clause would be
-- undone before the commit. It only ever raises.
create function durable() returns void language plpgsql as $$
begin
  if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
    perform set_config('synchronous_commit', 'on', true);
  end if;
end $$;

-- Every session found starts its time to live anew: assigned, since the clock may be another one. In id order and
-- waiting, the one exception to SKIP LOCKED; FOR NO KEY UPDATE, so that it waits for heartbeats and reapers alone.
create function grace() returns void language plpgsql as $$
begin
  perform from sessions where died is null order by id for no key update;
  update sessions set expires_at = clock_timestamp() + ttl where died is null;
  -- Neither is a grant that was forced over before its holder's trust is: that began anew as well.
  perform from locks l where l.forced_until is not null order by l.key for no key update;
  update locks l set forced_until = s.expires_at from sessions s
    where l.forced_until is not null and s.id = l.session and s.died is null;
  perform from holders h where h.forced_until is not null order by h.key, h.token for no key update;
  update holders h set forced_until = s.expires_at from sessions s
    where h.forced_until is not null and s.id = h.session and s.died is null;
  perform durable();
end $$;

-- By this reading the server's clock seems to have moved otherwise than the caller's, by more than a second. A slow call
-- looks the same, so all that follows is that this call judges no expiry.
create function is_doubtful(seen witness, reading timestamptz) returns boolean language sql as $$
  select coalesce(abs(extract(epoch from reading) * 1000 - seen.server_time - seen.elapsed) > 1000, false)
$$;

-- The moment by which a call judges who has expired; null: nobody, for the clock is in doubt. One reading, doubted and
-- judged by: a step of the clock may fall between two.
create function judged_at(seen witness) returns timestamptz language plpgsql as $$
declare
  reading timestamptz := clock_timestamp();
begin
  if is_doubtful(seen, reading) then return null; end if;
  return reading;
end $$;

-- The cluster row while this life of the server is the one that it describes; else nothing.
create view here as
  select c.* from cluster c
   where c.boot = (select k.boot from canary k)
     and c.started_at = pg_postmaster_start_time()
     and c.timeline = timeline()
     and c.cluster_oid = c.tableoid
     and c.database_oid = (select d.oid from pg_database d where d.datname = current_database());

-- The token base of a known incarnation, else null. A base that some client has seen above ours means that the commit
-- which raised it is gone; it is believed up to a day ahead of our clock.
create function current_base(seen bigint) returns bigint language plpgsql as $$
begin
  return (select h.base from here h
           where h.base >= seen or seen > base_of(clock_timestamp() + interval '1 day'));
end $$;

-- Runs before the call locks anything else. Where commits may be gone, a grant may be among them whose holder goes on believing
-- in it for max_ttl at most: so long only those are granted a key whose tickets are older than the loss. Not where no token was ever
-- drawn: of a template that databases for tests are made from, nothing is gone.
create function new_incarnation(seen bigint) returns bigint language plpgsql as $$
declare
  known  cluster;
  raised bigint;
  lossy  boolean;
begin
  select * into known from cluster for update;
  raised := current_base(seen);                 -- looked at again: we may have waited for who was first
  if raised is not null then return raised; end if;
  if seen > base_of(clock_timestamp() + interval '1 day') then seen := 0; end if;
  raised := greatest(known.base + ((1 + greatest(timeline() - known.timeline, 0)) << 32),
                     base_of(clock_timestamp()), seen + (1::bigint << 32));
  update cluster c set
    boot = gen_random_uuid(),
    system_identifier = (select p.system_identifier from pg_control_system() p),
    timeline = timeline(),
    database_oid = (select d.oid from pg_database d where d.datname = current_database()),
    cluster_oid = c.tableoid,
    started_at = pg_postmaster_start_time(),
    since = clock_timestamp(),
    base = raised
    returning c.system_identifier <> known.system_identifier or c.timeline <> known.timeline or c.database_oid <> known.database_oid
           or c.cluster_oid <> known.cluster_oid or seen > known.base
    into lossy;
  if lossy and known.replication = 'asynchronous' and pg_sequence_last_value('fencing') > 1 then
    update cluster c set quarantined_until = clock_timestamp() + c.max_ttl,
                         newcomers_after = coalesce(pg_sequence_last_value('waiters_ticket_seq'), 0);
  end if;
  delete from canary;
  insert into canary select c.boot from cluster c;
  perform grace();
  return raised;
end $$;

-- The head of every queue function: refuses where the protocol does not hold, and returns the token base.
create function enter(seen witness) returns bigint language plpgsql as $$
declare
  base bigint;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'fencepost: the queue works at read committed only, not at %', current_setting('transaction_isolation')
      using errcode = 'FP001', hint = 'Call it in a transaction of its own: CALL invoke(...) does that in one round trip.';
  end if;
  if pg_is_in_recovery() then
    raise exception 'fencepost: this server is a standby' using errcode = 'read_only_sql_transaction';
  end if;
  base := current_base(coalesce(seen.base, 0));
  if base is not null then return base; end if;
  return new_incarnation(coalesce(seen.base, 0));
end $$;

-- A client has proved that the server's clock was stepped: the difference of two answers lies outside what its own
-- clocks allow for. A grace, with the base unchanged, at most one each max_ttl. True: this call began it.
create function clock_stepped(seen witness default null) returns boolean
  language plpgsql security definer set search_path from current as $$
begin
  update cluster c set graced_at = clock_timestamp()
    where c.graced_at is null or c.graced_at not between clock_timestamp() - c.max_ttl and clock_timestamp();
  if not found then return false; end if;
  perform enter(seen), grace();
  return true;
end $$;

insert into cluster (version, compatible_from, boot, system_identifier, timeline, database_oid, cluster_oid,
                     started_at, since, base)
select 1, 1, gen_random_uuid(), (select system_identifier from pg_control_system()), timeline(),
       (select oid from pg_database where datname = current_database()), 'cluster'::regclass,
       pg_postmaster_start_time(), clock_timestamp(), base_of(clock_timestamp());
insert into canary select boot from cluster;

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
drop function clock_stepped(witness);
drop function enter(witness);
drop function judged_at(witness);
drop function is_doubtful(witness, timestamptz);
drop function new_incarnation(bigint);
drop function current_base(bigint);
drop view here;
drop function grace();
drop function durable();
drop function base_of(timestamptz);
drop function timeline();
drop function refuse_while_in_use();
drop table canary, cluster;
drop sequence fencing;
drop function server_time();
drop type witness;
