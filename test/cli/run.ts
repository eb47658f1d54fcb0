import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { Child, type Message } from '../support/child.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { leftovers } from '../support/leftovers.ts'
import { until } from '../support/until.ts'

export const main: URL = new URL('../../dist/cli/main.js', import.meta.url)
export const commandScript: string = fileURLToPath(new URL('./command.mjs', import.meta.url))

interface RunOptions {
  /** @default 'run' */
  readonly verb?: 'run' | 'elect'
  readonly key: string
  readonly flags?: readonly string[]
  /** What command.mjs is given. */
  readonly command?: readonly string[]
  readonly url?: string
}

/** `fencepost run`, or `elect`, with command.mjs under it: what is sent and said goes through the wrapper's own stdin and stdout. */
export class Run extends Child {
  constructor(db: TestDatabase, options: RunOptions) {
    const { verb = 'run', key, flags = [], command = [], url = db.twistedUrl } = options
    const args = [
      verb,
      key,
      '--schema',
      db.schema,
      ...flags,
      '--',
      process.execPath,
      commandScript,
      ...command,
    ]
    super(main, { args, env: { DATABASE_URL: url } })
  }

  /** What the command said first. */
  up(): Promise<Message> {
    return this.message('up')
  }

  /** The signals that have reached it, or what it forked. */
  signals(who = 'command'): unknown[] {
    return this.said.filter(said => said.name === 'signal' && said.who === who).map(({ signal }) => signal)
  }

  /** What the wrapper itself has said, with `--json`. */
  get notes(): Record<string, unknown>[] {
    return this.log.filter(line => line.startsWith('{"event"')).map(line => JSON.parse(line))
  }
}

/** A database for one test file; what a test has started is gone after it, and nothing is left in the database. */
export class RunStage {
  readonly #runs: Run[] = []
  #keys = 0
  #db: TestDatabase | undefined

  constructor() {
    beforeAll(async () => {
      this.#db = await createDatabase()
    })
    afterEach(() => {
      for (const run of this.#runs.splice(0)) {
        const pids = run.said.map(said => said.pid).filter(pid => pid !== undefined)
        for (const pid of [run.pid, ...pids]) if (isAlive(pid)) process.kill(Number(pid), 'SIGKILL')
      }
    })
    afterAll(() => this.#db?.drop())
  }

  get db(): TestDatabase {
    if (!this.#db) throw new Error('not before the first test')
    return this.#db
  }

  /** With a key of its own unless one is named: a wrapper that was killed leaves its lock for a ttl. */
  run(options: Partial<RunOptions> = {}): Run {
    const run = new Run(this.db, { key: `key ${++this.#keys}`, ...options })
    this.#runs.push(run)
    return run
  }

  /** Waits until the database has no grant, no ticket, no living session. */
  async nothingLeft(): Promise<void> {
    const pool = this.db.pool({ max: 1 })
    await until(async () => {
      const { tickets, grants, sessions } = await leftovers(pool, this.db.schema)
      return tickets + grants + sessions === 0
    })
  }
}

/** Whether there is such a process, and it is no zombie: those of a killed parent are for whoever is first here. */
export function isAlive(pid: unknown): boolean {
  return !['', 'Z', 'X'].includes(stateOf(pid))
}

/** `T`: it stands still. `Z`: it has ended, and nobody has looked. Empty: there is no such process. */
export function stateOf(pid: unknown): string {
  if (process.platform !== 'linux') {
    return spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' })
      .stdout.trim()
      .slice(0, 1)
  }
  try {
    // The name before it may hold anything, a parenthesis included.
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.slice(0, 1) ?? ''
  } catch {
    return ''
  }
}
