import { Command, Option } from 'commander'
import { type MigrateOptions, migrate } from '../database/migrate.ts'
import { type MigrationStatus, migrationStatus } from '../database/migration-status.ts'
import { latestVersion } from '../database/migrations/catalog.ts'
import { migrationSql } from '../database/migrations/script.ts'
import { collect, wholeNumber } from './arguments.ts'
import { requireUrl, urlOption } from './database-options.ts'
import { exitCode } from './exit-codes.ts'
import { print, tell } from './output.ts'

interface MigrateFlags {
  readonly url?: string
  readonly schema: string
  readonly check?: true
  readonly wait: string
  readonly sql?: true
  readonly from?: number
  readonly to?: number
  readonly grant?: readonly string[]
  readonly grantOperator?: readonly string[]
  readonly maxTtl?: string
  readonly down?: number
  readonly json?: true
}

const changing = ['grant', 'grantOperator', 'maxTtl', 'down']

/** `fencepost migrate`: brings the schema up to date, or back, or says how it stands. */
export function migrateCommand(finish: (code: number) => void): Command {
  const command = new Command('migrate')
    .description('Bring the schema up to date, or check it, or print the SQL for another tool.')
    .addOption(urlOption())
    .option('--schema <name>', 'the schema, created if there is none', 'fencepost')
    .addOption(
      new Option('--check', 'change nothing; exit 1 when something is pending or has drifted').conflicts(
        changing,
      ),
    )
    .option('--wait <duration>', 'how long to try again while the database starts, such as 60s', '0s')
    .addOption(
      new Option('--sql', 'print the migrations as one SQL statement; needs no database').conflicts([
        ...changing,
        'check',
        'json',
      ]),
    )
    .option('--from <version>', 'with --sql: where the schema is (default: 0)', wholeNumber(0))
    .option(
      '--to <version>',
      'with --sql: where it is to be; down if lower (default: the latest)',
      wholeNumber(0),
    )
    .option('--grant <role>', 'let this role use the locks; may be repeated', collect)
    .option('--grant-operator <role>', 'let this role also force and configure; may be repeated', collect)
    .option('--max-ttl <duration>', 'bound of every time to live, such as 120s')
    .addOption(
      new Option('--down <count>', 'revert the last migrations; refused while sessions are alive')
        .argParser(wholeNumber(1))
        .conflicts(['grant', 'grantOperator', 'maxTtl']),
    )
    .option('--json', 'print one line of JSON')
  return command.action(async (flags: MigrateFlags) => finish(await run(command, flags)))
}

async function run(command: Command, flags: MigrateFlags): Promise<number> {
  if (flags.sql) return printSql(flags)
  if (flags.from !== undefined || flags.to !== undefined)
    command.error('error: --from and --to go with --sql')
  const connection = requireUrl(command, flags.url)
  const target = { connection, schema: flags.schema, wait: flags.wait, log: tell }
  return flags.check ? check(flags, await migrationStatus(target)) : await change(flags, target)
}

function printSql({ schema, from = 0, to = latestVersion }: MigrateFlags): number {
  print(migrationSql({ schema, from, to, direction: from <= to ? 'up' : 'down' }).trimEnd())
  return exitCode.ok
}

function check({ schema, json }: MigrateFlags, status: MigrationStatus): number {
  const { version, latest, pending, drift, compatible } = status
  const ok = pending.length === 0 && drift.length === 0 && compatible
  if (json) {
    print(JSON.stringify({ schema, ok, ...status }))
  } else {
    print(`schema ${schema}: version ${version} of ${latest}${ok ? ', as shipped' : ''}`)
    for (const name of pending) print(`pending: ${name}`)
    for (const line of drift) print(line)
    if (version >= latest && !compatible)
      print('incompatible: the schema wants newer clients than this package')
  }
  return ok ? exitCode.ok : exitCode.failed
}

async function change(flags: MigrateFlags, target: MigrateOptions): Promise<number> {
  const { schema, json, down, grant = [], grantOperator = [], maxTtl } = flags
  const result = await migrate(
    down === undefined
      ? { ...target, grant, grantOperator, ...(maxTtl === undefined ? {} : { maxTtl }) }
      : { ...target, direction: 'down', count: down },
  )
  if (json) {
    print(JSON.stringify({ schema, ...result, grant, grantOperator, maxTtl }))
    return exitCode.ok
  }
  for (const role of grant) print(`granted the use of locks to ${role}`)
  for (const role of grantOperator) print(`granted the operator's functions to ${role}`)
  if (maxTtl !== undefined) print(`set max_ttl to ${maxTtl}`)
  const { version, applied, reverted } = result
  const done = reverted.length > 0 ? `${reverted.length} reverted` : `${applied.length} applied`
  print(`schema ${schema}: version ${version}, ${done}`)
  return exitCode.ok
}
