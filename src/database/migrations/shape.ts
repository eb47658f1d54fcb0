import { createHash } from 'node:crypto'
import type { OwnConnection } from './connection.ts'

/**
 * What a schema is made of, one line an object: its name against its definition, as text that says the same on every
 * supported server version and under every schema name.
 */
export type SchemaShape = Readonly<Record<string, string>>

// Each branch yields (item, definition, body). The search_path is the schema's, so that the server prints names
// without it; and its printing of expressions follows these settings.
const printing = `
  select set_config('search_path', quote_ident($1) || ', pg_temp', true),
         set_config('quote_all_identifiers', 'off', true), set_config('extra_float_digits', '1', true),
         set_config('intervalstyle', 'postgres', true), set_config('datestyle', 'ISO, YMD', true),
         set_config('timezone', 'UTC', true), set_config('bytea_output', 'hex', true)`

// A procedure that ends transactions can have no SET clause, so its body names the schema.
const functions = `
  select format('function %s(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) as item,
         concat_ws(' ', l.lanname, p.prokind, p.provolatile, case when p.prosecdef then 'definer' else 'invoker' end,
           format('(%s)', pg_get_function_arguments(p.oid)), 'returns ' || pg_get_function_result(p.oid),
           case when p.proisstrict then 'strict' end,
           case when has_function_privilege('public', p.oid, 'execute') then 'open to public' end,
           (select string_agg(replace(c, 'search_path=' || quote_ident($1) || ',', 'search_path=SCHEMA,'), ' ' order by c)
              from unnest(p.proconfig) c)) as definition,
         case p.prokind when 'p' then replace(p.prosrc, quote_ident($1) || '.', 'SCHEMA.') else p.prosrc end as body
    from pg_proc p join pg_language l on l.oid = p.prolang, here
   where p.pronamespace = here.oid`

// A view's text is printed differently from version to version; what it reads is not, nor (below) what it yields.
const relations = `
  select format('%s %s', case r.relkind when 'v' then 'view' when 'S' then 'sequence' when 'c' then 'type'
                         else 'table' end, r.relname),
         concat_ws(' ', case r.relpersistence when 'u' then 'unlogged' when 't' then 'temporary' else 'permanent' end,
           (select string_agg(o, ' ' order by o) from unnest(r.reloptions) o),
           (select format('%s start %s increment %s cache %s%s', format_type(s.seqtypid, null), s.seqstart,
                     s.seqincrement, s.seqcache, case when s.seqcycle then ' cycle' else '' end)
              from pg_sequence s where s.seqrelid = r.oid),
           (select 'reads ' || string_agg(distinct coalesce(t.relname || '.' || a.attname, t.relname,
                                                            d.refobjid::regproc::text), ' ')
              from pg_rewrite w
              join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
                              and d.refclassid in ('pg_class'::regclass, 'pg_proc'::regclass)
              left join pg_class t on d.refclassid = 'pg_class'::regclass and t.oid = d.refobjid
              left join pg_attribute a on a.attrelid = t.oid and a.attnum = d.refobjsubid and a.attnum > 0
             where w.ev_class = r.oid and d.refobjid <> r.oid)), null
    from relation r`

const columns = `
  select format('column %s.%s', r.relname, a.attname),
         concat_ws(' ', format_type(a.atttypid, a.atttypmod),
           (select 'collate ' || c.collname from pg_collation c, pg_type t
             where c.oid = a.attcollation and t.oid = a.atttypid and t.typcollation <> a.attcollation),
           case when a.attnotnull then 'not null' end, 'identity ' || nullif(a.attidentity::text, ''),
           'generated ' || nullif(a.attgenerated::text, ''), 'default ' || pg_get_expr(d.adbin, d.adrelid)), null
    from relation r
    join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = r.oid and d.adnum = a.attnum
   where r.relkind <> 'S'`

const indexes = `
  select format('index %s.%s', r.relname, i.relname),
         concat_ws(' ', pg_get_indexdef(x.indexrelid, 0, true), case when not x.indisvalid then 'invalid' end), null
    from relation r join pg_index x on x.indrelid = r.oid join pg_class i on i.oid = x.indexrelid`

// From 18 on the server keeps NOT NULL as a constraint too; the column says it already.
const constraints = `
  select format('constraint %s.%s', r.relname, c.conname), pg_get_constraintdef(c.oid, true), null
    from relation r join pg_constraint c on c.conrelid = r.oid where c.contype <> 'n'`

const triggers = `
  select format('trigger %s.%s', r.relname, t.tgname), concat_ws(' ', t.tgenabled, pg_get_triggerdef(t.oid, true)), null
    from relation r join pg_trigger t on t.tgrelid = r.oid where not t.tgisinternal`

const everything = `
  with here as (select oid from pg_namespace where nspname = $1),
       relation as (select r.* from pg_class r, here
                     where r.relnamespace = here.oid and r.relkind in ('r', 'p', 'v', 'm', 'S', 'c'))
  ${[functions, relations, columns, indexes, constraints, triggers].join('\n  union all\n')}`

/**
 * Reads the shape of a live schema. Bodies of functions enter as a hash that is taken here, since `md5` is forbidden
 * on some servers. Must be called inside a transaction: it changes settings of that.
 */
export async function readShape(db: OwnConnection, schema: string): Promise<SchemaShape> {
  await db.query(printing, [schema])
  const { rows } = await db.query<{ item: string; definition: string; body: string | null }>(everything, [
    schema,
  ])
  const lines = rows.map(({ item, definition, body }): [string, string] => [
    item,
    body === null ? definition : `${definition} ${hash(body)}`,
  ])
  return Object.fromEntries(lines.sort(([a], [b]) => (a < b ? -1 : 1)))
}

function hash(body: string): string {
  return createHash('sha256').update(body.replaceAll('\r\n', '\n')).digest('hex').slice(0, 32)
}
