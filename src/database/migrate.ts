import { setTimeout as pause } from 'node:timers/promises'
import { BadOptionError } from '../errors.ts'
import { type Duration, milliseconds, wholeNumber } from '../options.ts'
import {
  checkDirection,
  type Direction,
  type EmbeddedMigration,
  latestVersion,
  migrations,
} from './migrations/catalog.ts'
import {
  type ConnectionOptions,
  codeOf,
  type OwnConnection,
  withOwnConnection,
} from './migrations/connection.ts'
import { grantRoles, setMaxTtl } from './migrations/grants.ts'
import { alignLedger } from './migrations/ledger.ts'
import { MigrationError } from './migrations/migration-error.ts'
import { quoteIdentifier } from './migrations/quote.ts'
import { runMigrations } from './migrations/runner.ts'
import { checkRoles, checkSchema, defaultSchema, migrationLockKey } from './migrations/schema-name.ts'
import { whileStarting } from './migrations/starting.ts'
import { readState } from './migrations/state.ts'
import { checkWritable, inTransaction } from './migrations/transaction.ts'

export interface MigrateOptions {
  /** A connection string, or what `pg.Client` takes: the `options` of a pool will do. */
  readonly connection: string | ConnectionOptions
  /** Created if there is none. @default 'fencepost' */
  readonly schema?: string
  /** @default 'up' */
  readonly direction?: Direction
  /** With `direction: 'down'`: how many migrations to revert. @default 1 */
  readonly count?: number
  /** How long a database that does not answer yet is tried again. @default 0 */
  readonly wait?: Duration
  /** Told what happens, one line at a time. @default nothing */
  readonly log?: (line: string) => void
  /** Roles that may use the locks: USAGE of the schema and EXECUTE of its public functions. */
  readonly grant?: readonly string[]
  /** Roles that may force releases and change settings as well. */
  readonly grantOperator?: readonly string[]
  /** The bound of every time to live in this schema: 1 s to a day. @default unchanged, at first '60s' */
  readonly maxTtl?: Duration
}

export interface MigrateResult {
  /** The version of the schema now. */
  readonly version: number
  /** The names of the migrations that this call applied, in order. */
  readonly applied: readonly string[]
  /** The names of the migrations that this call reverted, in order. */
  readonly reverted: readonly string[]
  /** The names of the migrations that another tool had applied, and that this call wrote into its own record. */
  readonly recorded: readonly string[]
}

/**
 * Brings the schema up to date, or reverts its last migrations, on a connection of its own and in one transaction:
 * all of it happens or nothing. Any number of processes may call it at once; each waits for the one before, and all
 * succeed. A schema that is newer than this package is left as it is.
 *
 * @throws UnreachableError, ServerTooOldError, ReadOnlyServerError, BadOptionError
 * @throws MigrationError when the server refuses a step: no privilege, or a revert while sessions are alive.
 */
export async function migrate(options: MigrateOptions): Promise<MigrateResult> {
  const task = checkOptions(options)
  return await whileStarting(task.wait, task.log, () =>
    withOwnConnection(task.connection, db => onceAtATime(db, task, () => change(db, task))),
  )
}

interface Task extends Omit<Required<MigrateOptions>, 'wait' | 'maxTtl'> {
  /** Milliseconds. */
  readonly wait: number
  /** Milliseconds. */
  readonly maxTtl: number | undefined
}

const day = 86_400_000

function checkOptions(options: MigrateOptions): Task {
  const { connection, count = 1, wait = 0, maxTtl, log = () => {} } = options
  return {
    connection,
    schema: checkSchema(options.schema ?? defaultSchema),
    direction: checkDirection(options.direction),
    count: wholeNumber('count', count),
    wait: milliseconds('wait', wait, 0, Number.POSITIVE_INFINITY),
    maxTtl: maxTtl === undefined ? undefined : milliseconds('maxTtl', maxTtl, 1_000, day),
    log,
    grant: checkRoles('grant', options.grant ?? []),
    grantOperator: checkRoles('grantOperator', options.grantOperator ?? []),
  }
}

// Tried again and again instead of waited for in the server: a statement that waits holds a snapshot, and lock_timeout
// and its kin would end it.
async function onceAtATime<T>(db: OwnConnection, task: Task, work: () => Promise<T>): Promise<T> {
  const key = migrationLockKey(task.schema)
  for (let first = true; ; first = false) {
    const done = await inTransaction(db, async () => {
      await checkWritable(db)
      const { rows } = await db.query<{ ours: boolean }>('select pg_try_advisory_xact_lock($1) as ours', [
        key,
      ])
      return rows[0]?.ours ? { answer: await work() } : undefined
    })
    if (done) return done.answer
    if (first) task.log(`schema ${task.schema}: waiting for another migration`)
    await pause(50 + Math.random() * 100)
  }
}

async function change(db: OwnConnection, task: Task): Promise<MigrateResult> {
  const { schema, direction, log } = task
  const { exists, version } = await readState(db, schema)
  const steps = direction === 'up' ? migrations.slice(version) : stepsBack(version, task.count)
  if (!exists && direction === 'up') await createSchema(db, schema)
  const recorded = exists || direction === 'up' ? await alignLedger(db, schema, version) : []
  await db.query(`select set_config('search_path', quote_ident($1) || ', pg_temp', true)`, [schema])
  await runMigrations(db, schema, direction, steps, log)
  const names = steps.map(({ name }) => name)
  if (direction === 'down') return { version: version - names.length, applied: [], reverted: names, recorded }
  await grantRoles(db, schema, task)
  if (task.maxTtl !== undefined) await setMaxTtl(db, schema, task.maxTtl)
  return { version: version + names.length, applied: names, reverted: [], recorded }
}

function stepsBack(version: number, count: number): readonly EmbeddedMigration[] {
  if (version > latestVersion) {
    throw new BadOptionError(
      `direction: the schema is at version ${version}, which only a newer package than this one can revert`,
    )
  }
  return migrations.slice(Math.max(version - count, 0), version).toReversed()
}

// `if not exists` would ask for the privilege to create schemas also where there is one, and fail when another tool
// creates it at the same moment.
async function createSchema(db: OwnConnection, schema: string): Promise<void> {
  await db.query('savepoint no_schema')
  try {
    await db.query(`create schema ${quoteIdentifier(schema)}`)
  } catch (cause) {
    await db.query('rollback to savepoint no_schema')
    if (!createdMeanwhile.has(codeOf(cause) ?? ''))
      throw new MigrationError(`cannot create schema ${schema}`, cause)
  }
}

// duplicate_schema; unique_violation, when it was not committed yet as we looked.
const createdMeanwhile = new Set(['42P06', '23505'])
