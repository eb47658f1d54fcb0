import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('worker.mjs', import.meta.url))
const patience = 20_000

/** A worker process, seen from outside: what it is told, what it says, and what is done to it. */
export class Worker {
  #process
  #unread = []
  #wake = () => {}
  #stderr = ''
  /** Writes that it reported as done. */
  acknowledged = 0

  constructor(name, databaseUrl) {
    this.name = name
    this.#process = spawn(process.execPath, [script, name], {
      env: { ...process.env, DATABASE_URL: databaseUrl },
      stdio: 'pipe',
    })
    /** How it ended: an exit code, or the signal that ended it. */
    this.ended = once(this.#process, 'close').then(([code, signal]) => signal ?? code)
    this.ended.finally(() => this.#wake())
    this.#process.stdin.on('error', () => {})
    this.#process.stderr.on('data', text => {
      this.#stderr += text
    })
    createInterface({ input: this.#process.stdout }).on('line', line => {
      const message = JSON.parse(line)
      if (message.event === 'wrote') this.acknowledged++
      this.#unread.push(message)
      this.#wake()
    })
  }

  get pid() {
    return this.#process.pid
  }

  tell(word) {
    this.#process.stdin.write(`${word}\n`)
  }

  /** The next of these events that it says, or that it said already. */
  async next(...events) {
    const deadline = performance.now() + patience
    for (;;) {
      const found = this.#unread.findIndex(({ event }) => events.includes(event))
      if (found >= 0) return this.#unread.splice(found, 1)[0]
      const failed = this.#unread.find(({ event }) => event === 'failed')
      if (failed) throw new Error(`${this.name} failed: ${failed.error}: ${failed.message}`)
      if (this.#process.exitCode !== null || this.#process.signalCode !== null)
        throw new Error(`${this.name} ended: ${this.#stderr}`)
      if (performance.now() > deadline) throw new Error(`${this.name} did not say ${events.join(' or ')}`)
      await this.#somethingHappens(deadline)
    }
  }

  signal(signal) {
    this.#process.kill(signal)
  }

  /** Asks it to end in good order, and ends it if it does not. A process that is stopped can still be killed. */
  async end({ within = 5_000 } = {}) {
    const late = setTimeout(() => this.signal('SIGKILL'), within)
    this.#process.stdin.end()
    await this.ended
    clearTimeout(late)
  }

  async #somethingHappens(deadline) {
    let timer
    await new Promise(resolve => {
      this.#wake = resolve
      timer = setTimeout(resolve, deadline - performance.now() + 1)
    })
    clearTimeout(timer)
  }
}
