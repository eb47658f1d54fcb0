import { BadOptionError } from '../../errors.ts'
import { checkDirection, type Direction, latestVersion, migrationsBetween } from './catalog.ts'
import { dollarQuote, quoteIdentifier, quoteLiteral } from './quote.ts'
import { checkSchema, defaultSchema, migrationLockKey } from './schema-name.ts'

export interface MigrationSqlOptions {
  /** @default 'fencepost' */
  readonly schema?: string
  /** @default 'up' */
  readonly direction?: Direction
  /** The version that the schema is at. @default 0, or the latest one when `direction` is 'down' */
  readonly from?: number
  /** The version that it is to be at. @default the latest one, or 0 when `direction` is 'down' */
  readonly to?: number
}

/**
 * The migrations as one SQL statement, for people who migrate with another tool: psql, Flyway, or
 * `pgm.sql(migrationSql())` in a node-pg-migrate migration of their own (where it must be given no second argument).
 *
 * It is a DO block, so it is atomic with or without a transaction around it, and it neither begins nor ends one. It
 * creates the schema if there is none, refuses (55000) a schema that is not at version `from`, waits for another
 * migration of the same schema, and leaves the caller's `search_path` as it found it. `migrate()` recognises what was
 * applied this way and goes on from there.
 *
 * @throws BadOptionError when the versions are out of range or run against `direction`.
 */
export function migrationSql(options: MigrationSqlOptions = {}): string {
  const schema = checkSchema(options.schema ?? defaultSchema)
  const down = checkDirection(options.direction) === 'down'
  const from = checkVersion('from', options.from ?? (down ? latestVersion : 0))
  const to = checkVersion('to', options.to ?? (down ? 0 : latestVersion))
  if (down ? from < to : from > to) {
    throw new BadOptionError(`from, to: cannot go ${down ? 'down' : 'up'} from version ${from} to ${to}`)
  }
  if (from === to) return `-- Fencepost: nothing lies between version ${from} and ${to}.\n`
  const steps = migrationsBetween(from, to).map(({ name, up, down: revert }) =>
    step(name, down ? revert : up),
  )
  return script(schema, from, to, steps)
}

function checkVersion(name: string, version: number): number {
  if (Number.isInteger(version) && version >= 0 && version <= latestVersion) return version
  throw new BadOptionError(`${name}: want a version from 0 to ${latestVersion}`)
}

function step(name: string, sql: string): string {
  return `  -- ${name}\n  execute ${dollarQuote(sql, 'migration')};`
}

function script(schema: string, from: number, to: number, steps: readonly string[]): string {
  const name = quoteIdentifier(schema)
  const body = `declare
  found int := 0;
  callers_path constant text := current_setting('search_path');
begin
  perform pg_advisory_xact_lock(${migrationLockKey(schema)});
  if to_regnamespace(${quoteLiteral(name)}) is null then
    create schema ${name};
  elsif to_regclass(${quoteLiteral(`${name}.cluster`)}) is not null then
    select version into found from ${name}.cluster;
  end if;
  if found <> ${from} then
    raise exception 'fencepost: schema % is at version %, and this script begins at version ${from}', ${quoteLiteral(schema)}, found
      using errcode = 'object_not_in_prerequisite_state';
  end if;
  perform set_config('search_path', ${quoteLiteral(`${name}, pg_temp`)}, true);
${steps.join('\n')}
  perform set_config('search_path', callers_path, true);
end`
  const head = `-- Fencepost: schema ${JSON.stringify(schema)} from version ${from} to version ${to}.`
  return `${head}\ndo ${dollarQuote(body, 'fencepost')};\n`
}
