import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { defer } from './cleanup.mjs'
import { Refusal } from './refusal.mjs'

/** @typedef {Awaited<ReturnType<typeof startProcess>>} Process */

/**
 * A process of the bench, which is called by name and may say things by itself: `answering.mjs` is its half. It is
 * killed with the bench, also while it is stopped.
 * @param {string} program in this folder
 * @param {string[]} args
 * @param {string} what for what is said of its failures
 */
export async function startProcess(program, args, what) {
  const script = fileURLToPath(new URL(program, import.meta.url))
  const child = fork(script, args, { execArgv: ['--expose-gc'], serialization: 'advanced' })
  const exited = once(child, 'exit')
  defer(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await exited
  })

  let calls = 0
  /** @type {Map<number, { resolve: (result: any) => void, reject: (error: Error) => void }>} */
  const open = new Map()
  /** @type {(news: any) => void} */
  let hear = () => {}
  child.on('message', (/** @type {any} */ { id, failure, result, news }) => {
    if (news) return hear(news)
    if (failure) open.get(id)?.reject(new Refusal(`${what}: ${failure}`))
    else open.get(id)?.resolve(result)
    open.delete(id)
  })
  void exited.then(([code, signal]) => {
    for (const { reject } of open.values()) {
      reject(new Refusal(`${what}: its process ended (${signal ?? code})`))
    }
  })
  const reply = (/** @type {number} */ id) =>
    new Promise((resolve, reject) => {
      open.set(id, { resolve, reject })
    })

  return {
    /** What it says of itself. */
    ready: await reply(0),
    /**
     * @param {string} name one of its calls
     * @param {unknown} [argument]
     * @returns {Promise<any>}
     */
    call: (name, argument) => {
      const id = ++calls
      const answered = reply(id)
      child.send({ id, call: name, argument }, error => {
        if (error) open.get(id)?.reject(new Refusal(`${what}: ${error.message}`))
      })
      return answered
    },
    /** What it says by itself is told to this. @param {(news: any) => void} listener */
    listen: listener => {
      hear = listener
    },
    /** @param {NodeJS.Signals} signal */
    kill: signal => void child.kill(signal),
    /** When it has ended. */
    exited,
  }
}
