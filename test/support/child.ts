import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { until } from './until.ts'

/** A line that a child said: an object with a name. */
export interface Message {
  readonly name: string
  readonly [field: string]: unknown
}

export interface ChildOptions {
  readonly args?: readonly string[]
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>
}

const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** A Node process that runs a plain `.mjs` and speaks JSON lines with us; `worker.mjs` beside this is its half. */
export class Child implements AsyncDisposable {
  /** All that it said, in order. */
  readonly said: Message[] = []
  /** Lines that were not JSON, and all of stderr. */
  readonly log: string[] = []
  /** How it ended: an exit code, or the signal that ended it. */
  readonly exit: Promise<number | NodeJS.Signals>
  readonly #process: ChildProcess
  readonly #unread: Message[] = []
  #ended = false

  constructor(script: URL, options: ChildOptions = {}) {
    this.#process = spawn(process.execPath, [fileURLToPath(script), ...(options.args ?? [])], {
      env: { ...process.env, ...options.env },
      stdio: 'pipe',
    })
    running.add(this.#process)
    this.exit = new Promise(resolve => {
      this.#process.once('close', (code, signal) => {
        running.delete(this.#process)
        this.#ended = true
        resolve(signal ?? code ?? -1)
      })
    })
    this.#process.stdin?.on('error', () => {})
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      if (stream) createInterface({ input: stream }).on('line', line => this.#hear(line))
    }
  }

  get pid(): number {
    return this.#process.pid ?? -1
  }

  /** Says something to the child. */
  send(name: string, fields: Readonly<Record<string, unknown>> = {}): void {
    this.#process.stdin?.write(`${JSON.stringify({ name, ...fields })}\n`)
  }

  /** The next message of that name that was not answered here before; waits for it. @param within ms, 10 s unless set */
  async message(name: string, { within = 10_000 }: { within?: number } = {}): Promise<Message> {
    const found = () => this.#unread.findIndex(message => message.name === name)
    await until(() => found() >= 0 || this.#ended, {
      within,
      what: `message ${name}; its log: ${this.log.join('\n')}`,
    })
    const [message] = found() >= 0 ? this.#unread.splice(found(), 1) : []
    if (message) return message
    throw new Error(
      `the child ended (${await this.exit}) before it said ${name}; its log:\n${this.log.join('\n')}`,
    )
  }

  /** SIGSTOP: the process stands still, its connections stay open. */
  stop(): void {
    this.#process.kill('SIGSTOP')
  }

  /** SIGCONT: ends {@link stop}. */
  cont(): void {
    this.#process.kill('SIGCONT')
  }

  /** @param signal default SIGKILL. Settles when the process is gone. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<number | NodeJS.Signals> {
    this.#process.kill(signal)
    return await this.exit
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
  }

  #hear(line: string): void {
    const message = parse(line)
    if (message) {
      this.said.push(message)
      this.#unread.push(message)
    } else this.log.push(line)
  }
}

function parse(line: string): Message | undefined {
  try {
    const value = JSON.parse(line)
    return typeof value?.name === 'string' ? value : undefined
  } catch {
    return undefined
  }
}
