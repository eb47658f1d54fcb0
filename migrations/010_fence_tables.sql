-- Up Migration
--
-- Tables that refuse stale writers by themselves, and locks that end with a transaction.
-- A writer presents its token for a resource once a transaction; that raises the resource's mark (`fence`), so nobody
-- with a newer one comes in before the transaction ends. The table's trigger asks whether it was presented.
--   nothing presented --present--> presented, until the transaction or its savepoint ends
-- Not seen by a trigger: TRUNCATE, sessions with session_replication_role = replica, and who may disable triggers.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Where a transaction keeps what it has presented: a setting of its own, for a rollback undoes that as it does the mark.
create function presented_setting() returns text language sql stable set search_path from current as $$
  select 'fencepost.presented_' || md5(current_schema())
$$;

-- Presents a token for a resource to the fenced tables, until the transaction ends. Again with a newer one is allowed.
-- Errors: FP002 a newer token has been here; FP007 not a token; 40001 the same race as FP002, at repeatable read and above.
create function present(resource text, token bigint) returns void
  language plpgsql security definer set search_path from current as $$
declare
  setting text := presented_setting();
begin
  perform fence(present.resource, present.token);
  perform set_config(setting, (coalesce(nullif(current_setting(setting, true), ''), '{}')::jsonb
                               || jsonb_build_object(present.resource, present.token::text))::text, true);
end $$;

-- The trigger of a fenced table. Its arguments: the token's column, the expression of a row's resource, and the setting.
-- No rights of its own: the expression is the table owner's, and runs as the writer. Nor does it depend on the writer's
-- search_path.
create function fenced() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  presented jsonb := coalesce(nullif(current_setting(tg_argv[2], true), ''), '{}')::jsonb;
  resource  text;
  token     bigint;
  stored    bigint;
begin
  if tg_op <> 'INSERT' then
    execute format('select (%s)::text, (r.%I)::bigint from (select ($1).*) r', tg_argv[1], tg_argv[0])
      into resource, stored using old;
    token := presented->>resource;
    if token is null then
      raise exception 'fencepost: nothing was presented for %', coalesce(quote_literal(resource), 'null')
        using errcode = 'FP008', table = tg_table_name, schema = tg_table_schema,
              hint = 'In the same transaction, first: select present(resource, token).';
    end if;
    if token < stored then
      raise exception 'fencepost: token % for % is stale', token, quote_literal(resource)
        using errcode = 'FP002', table = tg_table_name, schema = tg_table_schema,
              hint = 'A later holder has written this row. Nothing was written; acquire the lock again.';
    end if;
    if tg_op = 'DELETE' then return old; end if;
  end if;
  execute format('select (%s)::text from (select ($1).*) r', tg_argv[1]) into resource using new;
  token := presented->>resource;
  if token is null then
    raise exception 'fencepost: nothing was presented for %', coalesce(quote_literal(resource), 'null')
      using errcode = 'FP008', table = tg_table_name, schema = tg_table_schema,
            hint = 'In the same transaction, first: select present(resource, token).';
  end if;
  return jsonb_populate_record(new, jsonb_build_object(tg_argv[0], token));
end $$;

-- Fences a table, or replaces how it is fenced. `resource` is an SQL expression over a row's columns, such as
-- $$'account ' || account_id$$, or a literal for the whole table; names in it that are neither columns nor the server's
-- own are qualified. `token_column` is a bigint of the table: the trigger fills it. The caller must own the table; rows
-- that are there stay as they are.
create function fence_table(target regclass, token_column name, resource text) returns void
  language plpgsql set search_path from current as $$
declare
  kind    "char"  := (select c.relkind from pg_class c where c.oid = target);
  typed   regtype := (select a.atttypid from pg_attribute a
                       where a.attrelid = target and a.attname = token_column and a.attnum > 0 and not a.attisdropped);
  setting text    := presented_setting();
  trigger text    := format('%I.fenced', current_schema());
begin
  if kind is null or kind not in ('r', 'p') then
    raise exception 'fencepost: % is not a table', target using errcode = 'wrong_object_type';
  end if;
  if typed is null then
    raise exception 'fencepost: % has no column %', target, quote_ident(token_column) using errcode = 'undefined_column';
  end if;
  if typed <> 'int8'::regtype then
    raise exception 'fencepost: column % of % is %, want bigint', quote_ident(token_column), target, typed
      using errcode = 'datatype_mismatch';
  end if;
  if resource is null then
    raise exception 'fencepost: want an expression for the resource' using errcode = 'null_value_not_allowed';
  end if;
  if exists (select from pg_trigger t where t.tgrelid = target and t.tgname = 'zz_fencepost_fence'
                                        and t.tgfoid <> to_regproc(trigger)) then
    raise exception 'fencepost: % has a trigger zz_fencepost_fence of another kind', target using errcode = 'duplicate_object';
  end if;
  perform set_config('search_path', 'pg_catalog, pg_temp', true);
  execute format('select (%s)::text from (select r.* from %s r limit 0) r', resource, target);
  -- The last of the table's triggers by its name: what the others change is fenced as they leave it.
  execute format('create or replace trigger zz_fencepost_fence before insert or update or delete on %s
                  for each row execute function %s(%L, %L, %L)', target, trigger, token_column, resource, setting);
end $$;

-- Undoes it; whether the table was fenced. Its column and the marks stay.
create function unfence_table(target regclass) returns boolean
  language plpgsql set search_path from current as $$
begin
  if not exists (select from pg_trigger t where t.tgrelid = target and t.tgname = 'zz_fencepost_fence'
                    and t.tgfoid = to_regproc(format('%I.fenced', current_schema()))) then
    return false;
  end if;
  execute format('drop trigger zz_fencepost_fence on %s', target);
  return true;
end $$;

-- An advisory lock of the calling transaction, waited for as long as that: one bigint or two ints. False: not within that
-- time. The block is a savepoint, so what the server granted in the moment in which the time was up is given back.
create function advisory_lock_within(keys bigint[], shared boolean, milliseconds int) returns boolean
  language plpgsql as $$
declare
  before text := current_setting('lock_timeout');
begin
  begin
    perform set_config('lock_timeout', advisory_lock_within.milliseconds::text, true);
    case when array_length(keys, 1) = 2 and shared then perform pg_advisory_xact_lock_shared(keys[1]::int, keys[2]::int);
         when array_length(keys, 1) = 2 then perform pg_advisory_xact_lock(keys[1]::int, keys[2]::int);
         when shared then perform pg_advisory_xact_lock_shared(keys[1]);
         else perform pg_advisory_xact_lock(keys[1]);
    end case;
    perform set_config('lock_timeout', before, true);
    return true;
  exception when lock_not_available then
    return false;
  end;
end $$;

update cluster set version = 10;
select close_to_public();

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function advisory_lock_within(bigint[], boolean, int);
drop function unfence_table(regclass);
drop function fence_table(regclass, name, text);
drop function fenced();
drop function present(text, bigint);
drop function presented_setting();
update cluster set version = 9;
