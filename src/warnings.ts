import { messageOf } from './database/failure.ts'

/** What a client says once, where nobody has asked. */
export function once<A extends unknown[]>(tell: (...about: A) => void): (...about: A) => void {
  let isTold = false
  return (...about) => {
    if (!isTold) tell(...about)
    isTold = true
  }
}

export function warnOfPolling(): void {
  process.emitWarning(
    'this connection is not the server’s own, or brings no notification (a pooler?): waiting by polling. ' +
      'Give listen: { connectionString } a direct connection, or listen: false to say that this is meant.',
    { type: 'FencepostWarning', code: 'FENCEPOST_POLLING' },
  )
}

export function warnOfNoPresence(why: string): void {
  process.emitWarning(
    `takeover 'fast' shows no presence, and a leader that is gone is found out when its ttl has run out: ${why}. ` +
      'It is tried again',
    { type: 'FencepostWarning', code: 'FENCEPOST_PRESENCE' },
  )
}

export function warnOfReplication(): void {
  process.emitWarning(
    "this schema's replication is 'synchronous', and the server's synchronous_standby_names is empty: it waits for no standby, so that " +
      'a failover may lose grants, and nobody is kept waiting for their holders. Set the one, or take the other back: ' +
      "select fencepost.configure(replication => 'asynchronous').",
    { type: 'FencepostWarning', code: 'FENCEPOST_REPLICATION' },
  )
}

export function warnOfWatchdog(error: Error): void {
  process.emitWarning(`the watchdog has ended, and nothing is watched any more: ${error.message}`, {
    type: 'FencepostWarning',
    code: 'FENCEPOST_WATCHDOG',
  })
}

export function warnOfFailedTick(
  error: unknown,
  { name, slot, attempt }: { name: string; slot: Date; attempt: number },
): void {
  process.emitWarning(
    `${JSON.stringify(name)} of ${slot.toISOString()} has failed, attempt ${attempt}: ${messageOf(error)}`,
    { type: 'FencepostWarning', code: 'FENCEPOST_TICK_FAILED' },
  )
}

export function warnOfScheduleTrouble(name: string, error: unknown): void {
  process.emitWarning(`${JSON.stringify(name)} cannot run for now, and is tried again: ${messageOf(error)}`, {
    type: 'FencepostWarning',
    code: 'FENCEPOST_SCHEDULE',
  })
}

/** Where two say different things of one schedule. */
export function warnOfDrift(name: string, own: object, ruling: object): void {
  const theirs = new Map(Object.entries(ruling))
  const differing = Object.entries(own).filter(([member, value]) => theirs.get(member) !== value)
  const words = differing.map(
    ([member, value]) => `${member} ${JSON.stringify(theirs.get(member))}, not ${JSON.stringify(value)}`,
  )
  process.emitWarning(
    `${JSON.stringify(name)} runs by another definition than this process has: ${words.join('; ')}. ` +
      'The higher version rules, else the first',
    { type: 'FencepostWarning', code: 'FENCEPOST_SCHEDULE_DRIFT' },
  )
}

export function warnOfOpenGuard(key: string, milliseconds: number): void {
  process.emitWarning(
    `a transaction under ${JSON.stringify(key)} has been open for ${milliseconds} ms: the line waits for it`,
    { type: 'FencepostWarning', code: 'FENCEPOST_GUARD_OPEN' },
  )
}

export function warnOfFailedLeader(key: string, error: unknown): void {
  const thrown = error instanceof Error ? (error.stack ?? error.message) : String(error)
  process.emitWarning(`what led ${JSON.stringify(key)} has thrown, and campaigns again later: ${thrown}`, {
    type: 'FencepostWarning',
    code: 'FENCEPOST_LEADER_FAILED',
  })
}
