import { Command, Option } from 'commander'
import { requireUrl, schemaOption, urlOption } from '../database-options.ts'
import { attend } from './attend.ts'
import type { Notes } from './notes.ts'
import { type Plan, type RunFlags, readPlan } from './plan.ts'
import { startPrivateServer } from './private-server.ts'
import { runLocked } from './run-locked.ts'
import type { Signals } from './signals.ts'

/** `fencepost run`: runs a command while it holds a lock. */
export function runVerb(finish: (code: number) => void): Command {
  const verb = new Command('run')
    .description('Run a command while holding a lock; it finds the token in FENCEPOST_TOKEN.')
    .argument('<name>', 'the key of the lock, or the name of the semaphore')
    .argument('<command...>', 'after --: the command, and its arguments')
    .usage('<name> [options] -- <command...>')
    .addOption(urlOption())
    .addOption(schemaOption())
    .option('--ttl <duration>', 'how long the lock outlives a holder that dies', '30s')
    .option('--timeout <duration>', 'how long to wait for the lock; exit 75 then (default: for ever)')
    .addOption(new Option('--no-wait', 'exit 75 at once when the lock is not free').conflicts('timeout'))
    .option('--shared', 'beside others who say so, never beside one who does not')
    .addOption(
      new Option('--permits <n/of>', "n of a semaphore's permits, such as 1/3: three run at once").conflicts(
        'shared',
      ),
    )
    .option('--grace <duration>', 'from SIGTERM to SIGKILL when the lock is lost; at most ttl/3', '5s')
    .option('--foreground', 'leave the command in our process group, with our terminal')
    .option('--dev', 'start a PostgreSQL for this run alone; the lock excludes nobody else')
    .option('--json', 'what is said on stderr: one line of JSON each')
  return verb.action(async (key: string, command: string[], flags: RunFlags) => {
    if (flags.dev && verb.getOptionValueSource('url') === 'cli')
      verb.error('error: --dev starts a database, and --url names one')
    const url = flags.dev ? undefined : requireUrl(verb, flags.url)
    const json = flags.json === true
    finish(
      await attend(key, json, (notes, signals) => run(readPlan(key, command, flags), url, notes, signals)),
    )
  })
}

async function run(plan: Plan, url: string | undefined, notes: Notes, signals: Signals): Promise<number> {
  if (url !== undefined) return await runLocked(plan, url, notes, signals)
  const server = await startPrivateServer(plan.schema)
  try {
    const where = `127.0.0.1:${server.port}`
    notes.say('dev', { where }, `--dev: a PostgreSQL for this run alone, at ${where}: excludes nobody else`)
    const env = { ...plan.env, DATABASE_URL: server.url }
    return await runLocked({ ...plan, env }, server.url, notes, signals)
  } finally {
    await server.end()
  }
}
