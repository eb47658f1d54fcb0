/**
 * Which locks the running code is under, by the sections around it (`withLock`). Only a section tells: a lock that was
 * acquired by hand may be used by whoever has the handle, and siblings under `Promise.all` exclude each other.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { AlreadyHeldError } from '../errors.ts'
import type { Lock } from './lock.ts'
import type { RequestOptions } from './request.ts'

interface Task {
  readonly lock: Lock
  /** The request by which it was granted: so the database knows the section. */
  readonly request: string
  /** Made where the section was entered. */
  readonly entered: Error
  readonly outer: Task | undefined
}

/** Made in the call itself, so that its stack begins with the caller. */
export function entry(): Error {
  const error = new Error('it was taken here')
  Error.captureStackTrace(error, entry)
  return error
}

export class Tasks {
  readonly #around = new AsyncLocalStorage<Task | undefined>()

  /** The innermost section whose lock is not given up: what is asked for now, it waits for. */
  get context(): string | undefined {
    return this.#innermost()?.request
  }

  /** A key of these that the code is under already. */
  holding(keys: readonly string[]): Task | undefined {
    let task = this.#innermost()
    while (task) {
      const { lock, outer } = task
      if (isHeld(lock) && lock.grants.some(({ key }) => keys.includes(key))) return task
      task = outer
    }
    return undefined
  }

  run<T>(lock: Lock, request: string, entered: Error, section: () => T): T {
    return this.#around.run({ lock, request, entered, outer: this.#around.getStore() }, section)
  }

  /** What goes on after the section around its caller, and is no part of it. */
  apart<T>(run: () => T): T {
    return this.#around.run(undefined, run)
  }

  #innermost(): Task | undefined {
    let task = this.#around.getStore()
    while (task && !isHeld(task.lock)) task = task.outer
    return task
  }
}

function isHeld({ state }: Lock): boolean {
  return state !== 'released' && state !== 'lost'
}

/** The lock that this task has, once more. @throws AlreadyHeldError where that is not what was asked for, or cannot be */
export function reenter({ lock, entered }: Task, details: RequestOptions, reentrant: boolean): Lock {
  const refuse = (why: string) => new AlreadyHeldError(details.key, why, { cause: entered })
  if (details.mode === 'permits') throw refuse('it would wait for permits of its own')
  if (details.keys) throw refuse('several keys are taken together, before any of them')
  if (lock.grants.length > 1) throw refuse('together with others, which are not entered one by one')
  if (lock.mode !== details.mode) {
    throw refuse(
      details.mode === 'exclusive'
        ? 'as a shared lock, and two readers who both wanted more would wait for each other'
        : 'as an exclusive lock, which covers it',
    )
  }
  if (!reentrant) throw refuse('waiting for it would never end. Say `reentrant: true` where that is meant')
  return lock.reenter()
}
