import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** Milliseconds. */
const patience = 20_000

/** A process of an example, which says JSON lines with an `event`, and is told words. */
export class Process {
  #child
  #said = []
  #heard = () => {}

  /** @param script the URL of its program, which finds the database in DATABASE_URL */
  constructor(script, databaseUrl, ...args) {
    this.#child = spawn(process.execPath, [fileURLToPath(script), ...args], {
      env: { ...process.env, DATABASE_URL: databaseUrl },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#child.stdin.on('error', () => {})
    createInterface({ input: this.#child.stdout }).on('line', line => {
      this.#said.push(JSON.parse(line))
      this.#heard()
    })
    /** How it ended: an exit code, or the signal that ended it. */
    this.ended = once(this.#child, 'close').then(([code, signal]) => signal ?? code)
    this.ended.then(() => this.#heard())
  }

  get pid() {
    return this.#child.pid
  }

  get isOver() {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  tell(word) {
    this.#child.stdin.write(`${word}\n`)
  }

  signal(signal) {
    this.#child.kill(signal)
  }

  /** The next of these events that it says, or has said. */
  async next(...events) {
    const late = setTimeout(() => this.#heard(), patience)
    const until = performance.now() + patience
    try {
      for (;;) {
        const found = this.#said.findIndex(({ event }) => events.includes(event))
        if (found >= 0) return this.#said.splice(found, 1)[0]
        if (this.isOver) throw new Error(`it ended, and did not say: ${events.join(' or ')}`)
        if (performance.now() >= until - 1) throw new Error(`it did not say: ${events.join(' or ')}`)
        await new Promise(resolve => {
          this.#heard = resolve
        })
      }
    } finally {
      clearTimeout(late)
    }
  }

  /** Ends it at once, also where it is stopped. */
  async kill() {
    this.#child.kill('SIGKILL')
    await this.ended
  }
}
