import { writeSync } from 'node:fs'
import type { Lock } from '../lock/lock.ts'

/** What a process ends with that has lost what it worked under; of the command the same. */
const lostCode = 76

/**
 * Ends the process once a lock is lost and what ran under it has not ended within the grace. Called when that was told to
 * stop, which may be before the loss.
 *
 * @param grace milliseconds
 */
export function exitUnlessOver(lock: Lock, grace: number, isOver: () => boolean): void {
  const later = (next: () => void) => void setTimeout(next, grace).unref()
  const look = () => {
    if (isOver()) return
    if (lock.state !== 'lost') return later(look)
    later(() => {
      if (!isOver()) exit(lock)
    })
  }
  look()
}

function exit({ key, lossReason }: Lock): never {
  try {
    writeSync(
      2,
      `fencepost: the leadership of ${JSON.stringify(key)} is lost (${lossReason}), and what ran under it has not ended: exit ${lostCode}\n`,
    )
  } catch {
    // Nobody reads it.
  }
  process.exit(lostCode)
}
