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


-- Pins a grant to the calling transaction: until it ends, nobody else is granted the key, whatever expires meanwhile.
-- To be called before the first read of guarded data. Returns the transaction's id, for pg_xact_status.
-- Errors: FP003 it is not held under this token (any more); 40001 the same, at repeatable read and above.
-- FOR KEY SHARE lets tickets in and keeps takers out; UNIQUE (session, token) keeps it from passing on an old version.
create function assert_held(key text, token bigint) returns xid8
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
  holder uuid;
begin
  select l.session into holder from locks l
    where l.key = assert_held.key and l.token = assert_held.token and not l.released for key share;
  if not found or not exists (select from sessions s where s.id = holder and s.died is null) then
    raise exception 'fencepost: % is not held under token %', quote_literal(assert_held.key), assert_held.token
      using errcode = 'FP003', hint = 'The lock was lost or released. Nothing was written; acquire it again.';
  end if;
  return pg_current_xact_id();
end $$;

-- Raises a resource's mark to a token, and refuses an older one. On entry, before the first read: who comes later
-- waits here for the transaction to end, and reads what it wrote.
-- Errors: FP002 a newer token has been here; 40001 the same race, at repeatable read and above.
create function fence(resource text, token bigint) returns void
  language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
begin
  if fence.token is null or fence.token <= 0 then
    raise exception 'fencepost: % is no token', coalesce(fence.token::text, 'null') using errcode = 'FP007';
  end if;
  insert into fences as f (resource, token) values (fence.resource, fence.token)
    on conflict (resource) do update set token = excluded.token where f.token <= excluded.token;
  if not found then
    raise exception 'fencepost: token % for % is stale', fence.token, quote_literal(fence.resource)
      using errcode = 'FP002', hint = 'A later holder has been here. Nothing was written; acquire the lock again.';
  end if;
end $$;

update cluster set version = 7;

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function fence(text, bigint);
drop function assert_held(text, bigint);
drop table fences;
update cluster set version = 6;
