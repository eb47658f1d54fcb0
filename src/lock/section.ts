import { LostError } from '../errors.ts'
import type { Lock } from './lock.ts'

/** What runs under a lock. */
export type Section<T> = (lock: Lock) => Promise<T> | T

/** Runs it and releases. What it throws is thrown. @throws LostError when the lock was lost before it had ended */
export async function runSection<T>(lock: Lock, section: Section<T>): Promise<T> {
  let result: T
  try {
    result = await section(lock)
  } catch (error) {
    await lock.release()
    throw error
  }
  const outcome = await lock.release()
  if (outcome !== 'released' && outcome !== 'already') throw new LostError(lock.key, outcome)
  return result
}
