import { onAbort } from '../../abort.ts'
import { LeaseWatch } from '../../lock/lease-watch.ts'
import type { Lock, ReleaseOutcome } from '../../lock/lock.ts'
import { within } from '../../within.ts'
import { exitCode } from '../exit-codes.ts'
import { CommandProcess, type Ended } from './command-process.ts'
import { Guardian } from './guardian.ts'
import { followJobControl } from './job-control.ts'
import type { Notes } from './notes.ts'
import type { Plan } from './plan.ts'
import type { Signals } from './signals.ts'

/** Milliseconds. */
const lookPatience = 1_000

/**
 * Runs the command under a lock that is held, and gives the lock back when it has ended, or has that done. Answers the exit code.
 *
 *   running --ended by itself--> released
 *      |  a grace before trust ends, with no renewal answered: SIGTERM; the rest is killed when trust ends
 *      |  lost before that: SIGKILL, for another may hold the lock already
 *      v
 *   ended for the lock: 76
 */
export async function runUnder(
  lock: Lock,
  plan: Plan,
  notes: Notes,
  signals: Signals,
  release: () => Promise<ReleaseOutcome> = () => lock.release(),
): Promise<number> {
  const { key } = lock
  const token = String(lock.token)
  notes.say('granted', { key, token })
  const { ended, wasCut } = await runWhileHeld(lock, plan, notes, signals)
  if (!wasCut) await look(lock)
  const outcome = await release()
  notes.say('released', { key, token, outcome })
  if (wasCut) return exitCode.lost
  if (outcome === 'released' || outcome === 'already') return ended.code
  notes.say(
    'lost',
    { key, token, reason: outcome },
    `${show(key)} was lost (${outcome}) before the command ended`,
  )
  return exitCode.lost
}

/**
 * Whether it is lost and we have not been told: an operator took it since the last renewal, for instance. A release would
 * not say so, for it counts from when it is called. No answer in time is none: the command has ended while it was held.
 */
async function look(lock: Lock): Promise<void> {
  await within(
    lock.renew().catch(() => {}),
    Math.min(lookPatience, lock.remaining / 2),
  )
}

/** How the command ended, and whether that was for the lock's sake. */
export interface RanWhileHeld {
  readonly ended: Ended
  readonly wasCut: boolean
}

/** The same, without giving the lock back. @param over aborted when the command is to end, whatever becomes of the lock */
export async function runWhileHeld(
  lock: Lock,
  plan: Plan,
  notes: Notes,
  signals: Signals,
  over?: AbortSignal,
): Promise<RanWhileHeld> {
  const { key } = lock
  const token = String(lock.token)
  const guardian = new Guardian(plan.grace, error =>
    notes.say(
      'unguarded',
      { message: error.message },
      `${error.message}: if this is killed, the command goes on`,
    ),
  )
  const child = new CommandProcess({
    ...plan,
    env: {
      ...process.env,
      ...plan.env,
      FENCEPOST_KEY: key,
      FENCEPOST_TOKEN: token,
      FENCEPOST_LEVEL: String(lock.level),
    },
  })
  if (child.target !== undefined) guardian.watch(child.target)
  const ran = await supervise(lock, child, plan, notes, signals, over)
  const { ended } = ran
  guardian.release()
  if (ended.error)
    notes.say(
      'error',
      { key, message: ended.error.message },
      `cannot run the command: ${ended.error.message}`,
    )
  else notes.say('ended', { key, token, code: ended.code, signal: ended.signal })
  return ran
}

async function supervise(
  lock: Lock,
  child: CommandProcess,
  { grace, foreground }: Plan,
  notes: Notes,
  signals: Signals,
  over: AbortSignal | undefined,
): Promise<RanWhileHeld> {
  let ending: Promise<void> | undefined
  const watch = new LeaseWatch(lock, grace, left => {
    if (ending !== undefined) return child.kill()
    ending = child.end(left)
    const { key, lossReason: reason } = lock
    const why = reason
      ? `is lost (${reason})`
      : `will be lost in ${Math.ceil(left)} ms, no renewal was answered`
    notes.say('ending', { key, reason, left: Math.ceil(left) }, `${show(key)} ${why}: ending the command`)
  })
  signals.passTo(signal => void child.signal(signal), foreground)
  const unfollow = followJobControl(
    () => {
      if (watch.look()) child.signal('SIGCONT')
    },
    foreground ? undefined : () => void child.signal('SIGSTOP'),
  )
  let overdue: Promise<void> | undefined
  const endInTime = () => {
    overdue = child.end(grace)
  }
  const unwatch = over && onAbort(over, endInTime)
  const ended = await child.ended
  unwatch?.()
  signals.ignore()
  watch.stop()
  unfollow()
  await Promise.all([ending, overdue])
  return { ended, wasCut: ending !== undefined }
}

function show(key: string): string {
  return JSON.stringify(key)
}
