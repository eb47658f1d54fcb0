-- Up Migration
--
-- What the protected data itself can check. These run in the user's own transaction, at any isolation level, and may
-- wait for other transactions, bounded by the caller's lock_timeout.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- The highest token that each fenced resource has seen. Deleted by nobody: a mark forgotten is a stale write let in.
create table fences (
  resource text collate "C" primary key check (resource <> '' and octet_length(resource) <= 1000),
  token    bigint not null
) with (fillfactor = 60);


-- Pins a grant to the calling transaction: until that ends, nobody else is granted the key, whatever expires meanwhile.
-- No row: it is not held under this token (any more), and the transaction is as usable as before. At repeatable read
-- and above a hand-over after the snapshot is a 40001 instead, which means the same.
-- FOR KEY SHARE lets tickets in and keeps takers out; UNIQUE (session, token) keeps it from passing on an old version.
-- `boot` is null where this is not the life of the server, or the database, that the schema describes.
-- `bounded`: a transaction that is stuck ends by itself when the session's time as of now is up. From 17 on one timeout
-- does that; before, two of them do what they can, and the holder's client ends the backend.
create function pin(key text, token bigint, bounded boolean default true)
  returns table (transaction xid8, boot uuid, milliseconds int)
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
  holder  uuid;
  timeout text;
  was     text;
begin
  select l.session into holder from locks l
    where l.key = pin.key and pin.token between l.token + 0 and coalesce(l.token_to, l.token)
      and l.session is not null and not l.released and l.forced_until is null for key share;
  if not found then
    -- Shared, or permits. Never the head: a pin of one holder would keep all the others there.
    select h.session into holder from holders h
      where h.key = pin.key and h.token = pin.token and not h.released and h.forced_until is null for key share;
  end if;
  if not found then return; end if;
  -- Expired, but not dead: nobody has taken it, and by now nobody can. Its client may not even know of the clock.
  select pg_current_xact_id(), h.boot,
         greatest(extract(epoch from case when s.expires_at > t.now then s.expires_at - t.now else s.ttl end) * 1000, 1)
    into transaction, boot, milliseconds
    from sessions s cross join clock_timestamp() t(now) left join here h on true
   where s.id = holder and s.died is null;
  if not found then return; end if;
  if pin.bounded then
    foreach timeout in array case when current_setting('server_version_num')::int >= 170000
        then array['transaction_timeout'] else array['idle_in_transaction_session_timeout', 'statement_timeout'] end
    loop
      -- A shorter one of the user's stays. A timer that runs already is not set anew unless it is stopped first.
      continue when current_setting(timeout)::interval between interval '1 ms' and milliseconds * interval '1 ms';
      was := set_config(timeout, '0', true);
      was := set_config(timeout, milliseconds::text, true);
    end loop;
  end if;
  return next;
end $$;

-- Whether a pin of this transaction still holds, at its end: rolling back to a savepoint from before it has freed it.
-- What was lost meanwhile does not matter while it was pinned: nobody has been granted the key.
create function pin_again(key text, token bigint) returns void
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
begin
  perform from locks l
    where l.key = pin_again.key and pin_again.token between l.token + 0 and coalesce(l.token_to, l.token) and l.session is not null for key share;
  if not found then
    perform from holders h where h.key = pin_again.key and h.token = pin_again.token for key share;
  end if;
  if not found then
    raise exception 'fencepost: % was handed on while nothing pinned token %', quote_literal(pin_again.key), pin_again.token
      using errcode = 'FP003', hint = 'A rollback to a savepoint from before the pin freed it. Nothing was written.';
  end if;
end $$;

-- What became of a transaction whose commit was not answered: committed, aborted, in progress; null where that can no
-- longer be asked, because this is another incarnation than the one that it ran in.
create function transaction_status(transaction xid8, boot uuid) returns text
  language sql security definer set search_path from current as $$
  select pg_xact_status(transaction_status.transaction) from here h where h.boot = transaction_status.boot
$$;

-- Tokens come from elsewhere: one that was mislaid on the way is told from one that is stale.
create function check_token(token bigint) returns void language plpgsql as $$
begin
  if check_token.token is null or check_token.token <= 0 then
    raise exception 'fencepost: % is no token', coalesce(check_token.token::text, 'null') using errcode = 'FP007';
  end if;
end $$;

-- The same as `pin` for callers of plain SQL: it raises where the grant is not held.
-- Errors: FP003 it is not held under this token (any more); 40001 the same, at repeatable read and above; FP007 no token.
create function assert_held(key text, token bigint) returns xid8
  language plpgsql security definer set search_path from current as $$
declare
  pinned record;
begin
  perform check_token(assert_held.token);
  select * into pinned from pin(assert_held.key, assert_held.token, false);
  if not found then
    raise exception 'fencepost: % is not held under token %', quote_literal(assert_held.key), assert_held.token
      using errcode = 'FP003', hint = 'The lock was lost or released. Nothing was written; acquire it again.';
  end if;
  return pinned.transaction;
end $$;

-- Raises a resource's mark to a token, and refuses an older one. On entry, before the first read: who comes later
-- waits here for the transaction to end, and reads what it wrote.
-- Errors: FP002 a newer token has been here; 40001 the same race, at repeatable read and above.
create function fence(resource text, token bigint) returns void
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
begin
  perform check_token(fence.token);
  insert into fences as f (resource, token) values (fence.resource, fence.token)
    on conflict (resource) do update set token = excluded.token where f.token <= excluded.token;
  if not found then
    raise exception 'fencepost: token % for % is stale', fence.token, quote_literal(fence.resource)
      using errcode = 'FP002', hint = 'A later holder has been here. Nothing was written; acquire the lock again.';
  end if;
end $$;

update cluster set version = 8;

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function fence(text, bigint);
drop function assert_held(text, bigint);
drop function check_token(bigint);
drop function transaction_status(xid8, uuid);
drop function pin_again(text, bigint);
drop function pin(text, bigint, boolean);
drop table fences;
update cluster set version = 7;
