import type { AcquireOptions, FencepostOptions, PermitOptions } from '../../src/index.ts'
import { Child, type ChildOptions, type Message } from '../support/child.ts'
import type { TestDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

const script = new URL('./worker.mjs', import.meta.url)

/** What of the options a message can carry. */
type WorkerOptions = Pick<FencepostOptions, 'connectionString' | 'ttl' | 'poll' | 'owner' | 'listen'>

/** What of an acquire's can. */
type Options = Omit<AcquireOptions & PermitOptions, 'signal'>

/** Whether it is permits that are asked for, and how many the semaphore has. */
export interface Kind {
  readonly capacity?: number | undefined
}

export interface Granted {
  /** Of several keys, of the first. */
  readonly token: bigint
  /** Milliseconds by the clock that all processes of this machine share: {@link clock}. */
  readonly at: number
}

/** A lock's state over a time that it was seen in. */
export interface Period {
  readonly state: string
  readonly from: number
  readonly until: number
}

/** Milliseconds by the monotonic clock, the same in every process. */
export const clock = (): number => Number(process.hrtime.bigint() / 1000n) / 1000

/** A process of its own with one client. */
export class Worker extends Child {
  #locks = 0

  constructor(db: TestDatabase, options: WorkerOptions = {}, child: Omit<ChildOptions, 'args'> = {}) {
    const args = [JSON.stringify({ connectionString: db.url, schema: db.schema, ...options })]
    super(script, { ...child, args })
  }

  /** Asks for a key; the name of the lock is known at once, its grant is what `granted` waits for. */
  acquire(key: string | readonly string[], options: Options = {}, { capacity }: Kind = {}): string {
    const id = `lock ${++this.#locks}`
    this.send('acquire', { id, key, options, capacity })
    return id
  }

  /** What came of an acquire: `granted` or `refused`. */
  async answer(id: string, within = 10_000): Promise<Message> {
    const find = () =>
      this.said.find(({ name, id: of }) => of === id && (name === 'granted' || name === 'refused'))
    return await until(find, { within, what: `an answer for ${id}; its log: ${this.log.join('\n')}` })
  }

  async granted(id: string, within?: number): Promise<Granted> {
    const { name, token, at, ...rest } = await this.answer(id, within)
    if (name === 'granted') return { token: BigInt(token as string), at: at as number }
    throw new Error(`refused: ${JSON.stringify(rest)}`)
  }

  /** Acquires a key that is to be had. */
  async hold(
    key: string | readonly string[],
    options: Options = {},
    kind: Kind = {},
  ): Promise<Granted & { id: string }> {
    const id = this.acquire(key, options, kind)
    return { id, ...(await this.granted(id)) }
  }

  async release(id: string): Promise<string> {
    this.send('release', { id })
    return (await this.message('released')).outcome as string
  }

  /** What every gate of a lock answers, all in one turn of its loop. */
  async gates(id: string): Promise<Record<string, unknown>> {
    this.send('gates', { id })
    return await this.message('gates')
  }

  /** What was seen of a lock's state so far. */
  async history(id: string): Promise<readonly Period[]> {
    this.send('history', { id })
    return (await this.message('history')).history as Period[]
  }
}
