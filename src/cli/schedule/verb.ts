import { Command, Option } from 'commander'
import { TickTimeoutError } from '../../errors.ts'
import { Fencepost } from '../../fencepost.ts'
import { milliseconds } from '../../options.ts'
import type { ScheduleOptions } from '../../schedule/definition.ts'
import type { Tick } from '../../schedule/tick.ts'
import { wholeNumber } from '../arguments.ts'
import { requireUrl, schemaOption, urlOption } from '../database-options.ts'
import { exitCode } from '../exit-codes.ts'
import type { Ended } from '../run/command-process.ts'
import { notRun } from '../run/not-run.ts'
import { Notes } from '../run/notes.ts'
import type { Plan } from '../run/plan.ts'
import { runWhileHeld } from '../run/run-under.ts'
import { Signals } from '../run/signals.ts'

interface ScheduleFlags {
  readonly url?: string
  readonly schema: string
  readonly timezone: string
  readonly missed: 'skip' | 'once' | 'all'
  readonly overlap: 'skip' | 'queue'
  readonly timeout?: string
  readonly attempts: number
  readonly jitter: string
  readonly ttl: string
  readonly grace: string
  readonly json?: true
}

/** `fencepost schedule`: runs a command at the times of a cron expression, each time on one of the machines that say so. */
export function scheduleVerb(finish: (code: number) => void): Command {
  const verb = new Command('schedule')
    .description('Run a command at the times of a cron expression: on one machine each time.')
    .argument('<name>', 'of the schedule, the same on all machines')
    .argument('<cron>', 'five fields, or six with seconds first, such as "30 2 * * *"')
    .argument('<command...>', 'after --: the command, and its arguments')
    .usage('<name> <cron> [options] -- <command...>')
    .addOption(urlOption())
    .addOption(schemaOption())
    .option('--timezone <name>', 'by whose clocks the expression is read', 'UTC')
    .addOption(
      new Option('--missed <what>', 'what becomes of times at which nobody was there')
        .choices(['skip', 'once', 'all'])
        .default('skip'),
    )
    .addOption(
      new Option('--overlap <what>', 'what becomes of a time that comes while the command still runs')
        .choices(['skip', 'queue'])
        .default('skip'),
    )
    .option('--timeout <duration>', 'how long the command may take; then it is ended (default: for ever)')
    .option(
      '--attempts <n>',
      'how often it is started where it fails, or its machine does',
      wholeNumber(1),
      1,
    )
    .option('--jitter <duration>', 'up to so much later than its time it starts', '0s')
    .option('--ttl <duration>', 'how long the lease outlives a machine that dies', '30s')
    .option('--grace <duration>', 'from SIGTERM to SIGKILL when it must end; at most ttl/3', '5s')
    .option('--json', 'what is said on stderr: one line of JSON each')
  return verb.action(async (name: string, cron: string, command: string[], flags: ScheduleFlags) => {
    const url = requireUrl(verb, flags.url)
    const notes = new Notes(flags.json === true)
    const signals = new Signals()
    // What Node would print in a form of its own.
    process.removeAllListeners('warning')
    process.on('warning', ({ message }) => notes.say('warning', { message }, message))
    try {
      finish(await runForEver(url, { name, cron, command }, flags, notes, signals))
    } catch (error) {
      finish(notRun(error, name, notes))
    } finally {
      signals.stop()
      setTimeout(() => process.exit(), 0).unref()
    }
  })
}

interface What {
  readonly name: string
  readonly cron: string
  readonly command: readonly string[]
}

/** Until a signal asks us to end: then the command that runs has been told, and is waited for. */
async function runForEver(
  url: string,
  { name, cron, command }: What,
  flags: ScheduleFlags,
  notes: Notes,
  signals: Signals,
): Promise<number> {
  const { schema, timezone, missed, overlap, attempts, jitter, timeout } = flags
  const ttl = milliseconds('--ttl', flags.ttl, 1_000, 86_400_000)
  const grace = Math.min(milliseconds('--grace', flags.grace, 0, 86_400_000), Math.floor(ttl / 3))
  const plan: Omit<Plan, 'key' | 'env'> = {
    schema,
    command,
    ttl,
    grace,
    shared: false,
    permits: undefined,
    timeout: undefined,
    foreground: false,
  }
  const options: ScheduleOptions = {
    timezone,
    missed,
    overlap,
    timeout,
    jitter,
    retry: { attempts },
    onError: (error, { slot }) =>
      notes.say('failed', { schedule: name, slot: slot.toISOString(), message: text(error) }),
  }
  const fp = new Fencepost({ connectionString: url, schema, ttl })
  try {
    const schedule = await fp.schedule(name, cron, tick => runTick(tick, plan, notes, signals), options)
    notes.say('scheduled', { schedule: name, next: schedule.next?.toISOString() })
    await aborted(signals.gaveUp)
    await schedule.stop()
    return exitCode.ok
  } finally {
    await fp.close({ timeout: 0 })
  }
}

/** @throws Error where the command failed */
async function runTick(
  tick: Tick,
  plan: Omit<Plan, 'key' | 'env'>,
  notes: Notes,
  signals: Signals,
): Promise<void> {
  const { name, attempt, lock } = tick
  const slot = tick.slot.toISOString()
  notes.say('started', { schedule: name, slot, attempt, token: String(tick.token) })
  const overdue = new AbortController()
  tick.signal.addEventListener('abort', () => {
    if (tick.signal.reason instanceof TickTimeoutError) overdue.abort()
  })
  const env = { FENCEPOST_SLOT: slot, FENCEPOST_ATTEMPT: String(attempt) }
  const about = { ...plan, key: lock.key, env }
  const { ended, wasCut } = await runWhileHeld(lock, about, notes, signals, overdue.signal)
  if (wasCut) throw new Error('the command was ended: the lease was lost, or about to be')
  const failure = failureOf(ended)
  if (failure !== undefined) throw new Error(failure)
  notes.say('finished', { schedule: name, slot })
}

function failureOf({ code, signal, error }: Ended): string | undefined {
  if (error) return `the command cannot be run: ${error.message}`
  if (signal) return `the command was ended by ${signal}`
  return code === 0 ? undefined : `the command ended with ${code}`
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

const text = (error: unknown): string => (error instanceof Error ? error.message : String(error))
