-- Up Migration
--
-- Who leads. An election named N is the exclusive lock of the key N, and a term is a grant of it. Who campaigns says in the
-- metadata of the request who that is: {"identity": text, "value": anything}. A holder without an identity was elected by nobody.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- The leader by the record, as of one snapshot; no row: nobody leads. There is no session and no request in it, so it gives
-- nobody's lock away. `renewed_at` is when the last renewal that counts reached the server. `expires_in` in milliseconds; 0: its
-- time is over, and nobody has met it since who would have stored its death. Two probes of an index, whatever the statistics say.
create function leader(key text)
  returns table (identity text, value jsonb, token bigint, owner text, since timestamptz, renewed_at timestamptz, ttl interval,
                 expires_in double precision)
  language plpgsql stable security definer set search_path from current
  set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  held  locks;
  alive sessions;
begin
  if pg_is_in_recovery() then
    raise exception 'fencepost: this server is a standby' using errcode = 'read_only_sql_transaction';
  end if;
  select * into held from locks l where l.key = leader.key;
  if held.session is null or held.released or jsonb_typeof(held.metadata->'identity') is distinct from 'string' then return; end if;
  select * into alive from sessions s where s.id = held.session and s.died is null;
  if not found then return; end if;
  return query
    select held.metadata->>'identity', held.metadata->'value', held.token, alive.owner, held.granted_at, alive.expires_at - alive.ttl, alive.ttl,
           greatest(extract(epoch from least(alive.expires_at, held.forced_until) - clock_timestamp()) * 1000, 0)::double precision;
end $$;

update cluster set version = 14;
select close_to_public();

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function leader(text);
update cluster set version = 13;
