import { basename } from 'node:path'
import { AbortedError } from '../../errors.ts'
import type { Notes } from './notes.ts'
import type { Plan } from './plan.ts'
import { runUnder } from './run-under.ts'
import type { Signals } from './signals.ts'
import { withClient } from './with-client.ts'

/** Acquires, runs, gives back; answers the exit code. @throws what `acquire` throws: the command was not started */
export function runLocked(plan: Plan, url: string, notes: Notes, signals: Signals): Promise<number> {
  const { key, permits } = plan
  return withClient(plan, url, async fp => {
    const options = { timeout: plan.timeout, signal: signals.gaveUp, label: labelOf(plan.command) }
    const lock = permits
      ? await fp.semaphore(key, { permits: permits.capacity }).acquire({ ...options, permits: permits.count })
      : await fp.acquire(key, { ...options, mode: plan.shared ? 'shared' : 'exclusive' })
    // The grant and the signal may meet.
    if (signals.gaveUp.aborted) throw new AbortedError(key, signals.gaveUp.reason)
    return await runUnder(lock, plan, notes, signals)
  })
}

/** For those who look who holds what. Of the command only its name: arguments may hold secrets. */
function labelOf([file = '']: readonly string[]): string | undefined {
  const name = basename(file)
  return Buffer.byteLength(name) <= 200 && Buffer.from(name).toString() === name ? name : undefined
}
