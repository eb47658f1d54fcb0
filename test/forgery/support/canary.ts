import { expect } from 'vitest'
import type { TestDatabase } from '../../support/database.ts'

/** A table beside ours with rows in it, and all else that a statement gone astray might change. */
export class Canary {
  readonly #db: TestDatabase
  readonly #before: Look

  private constructor(db: TestDatabase, before: Look) {
    this.#db = db
    this.#before = before
  }

  static async plant(db: TestDatabase): Promise<Canary> {
    await db.query(
      `create table public.canary (text text); insert into public.canary values ('alive'), ('well')`,
    )
    await db.query(`create role ${db.name}_bystander`)
    return new Canary(db, await look(db))
  }

  async uproot(): Promise<void> {
    await this.#db.query(`drop role ${this.#db.name}_bystander`)
  }

  /** @param added the schemas that were asked for since */
  async expectAlive(added: readonly string[] = []): Promise<void> {
    const { schemas, ...others } = await look(this.#db, added)
    const { schemas: before, ...othersBefore } = this.#before
    expect(others).toEqual(othersBefore)
    expect(schemas).toEqual([...before, ...added].sort())
  }
}

interface Look {
  readonly schemas: string[]
  readonly objects: string
  readonly settings: unknown
  readonly rows: unknown
  readonly mine: unknown
}

/** What is in the database, apart from what is in the schemas that were `added`. */
async function look(db: TestDatabase, added: readonly string[] = []): Promise<Look> {
  const [row] = await db.query<{ look: Look }>(
    `with here as (select n.oid, n.nspname, n.nspacl from pg_namespace n where n.nspname !~ '^pg_t(emp|oast)'),
          theirs as (select * from here where nspname <> all ($1))
     select json_build_object(
       'schemas', (select json_agg(nspname order by nspname collate "C") from here),
       'objects', (select md5(string_agg(o, chr(10) order by o)) from (
          select format('%s %s', nspname, nspacl) from theirs
          union all select format('%s.%s %s %s %s', h.nspname, c.relname, c.relkind, c.relacl, c.relowner)
            from pg_class c join theirs h on h.oid = c.relnamespace
          union all select format('%s.%s %s %s %s', h.nspname, p.oid::regprocedure, p.proacl, p.proowner, md5(p.prosrc))
            from pg_proc p join theirs h on h.oid = p.pronamespace
          union all select format('%s.%s', h.nspname, t.typname) from pg_type t join theirs h on h.oid = t.typnamespace
          union all select format('%s %s', tgrelid, tgname) from pg_trigger
          union all select extname::text from pg_extension) x(o)),
       'settings', (select json_agg(s) from pg_db_role_setting s
                     where s.setdatabase = (select oid from pg_database where datname = current_database())),
       'rows', (select json_agg(c) from public.canary c),
       'mine', (select json_agg(r) from (select rolcanlogin, rolsuper from pg_roles
                 where rolname = current_database() || '_bystander') r)) as look`,
    [added],
  )
  const found = row?.look as Look
  return { ...found, schemas: [...found.schemas].sort() }
}
