import type pg from 'pg'
import { Backend, connect, type Place, replyOf } from './backend.ts'
import type { Call } from './calls.ts'
import type { State } from './state.ts'

/** How long nothing may happen before a schedule counts as stuck; milliseconds. */
const patience = 10_000

/** The backends of a schedule, one an actor, each moved from one point to the next while the others stand. */
export class Stage {
  readonly control: pg.Client
  readonly #url: string
  readonly #schema: string
  readonly #points: readonly string[]
  readonly #backends: Backend[] = []
  #wake: () => void = () => {}

  private constructor(url: string, schema: string, points: readonly string[], control: pg.Client) {
    this.#url = url
    this.#schema = schema
    this.#points = points
    this.control = control
  }

  /** @param points of each actor, at whose gates it stops */
  static async open(url: string, schema: string, points: readonly (readonly number[])[]): Promise<Stage> {
    const control = await connect(url, schema, {})
    const stage = new Stage(
      url,
      schema,
      points.map(each => `,${each.join()},`),
      control,
    )
    for (const index of points.keys()) stage.#backends.push(await stage.#connect(index))
    return stage
  }

  /** Whether an actor stops anywhere but between its calls and before their commits. */
  stops(actor: number): boolean {
    return this.#points[actor] !== ',,'
  }

  place(actor: number): Place {
    return this.#backend(actor).place
  }

  /** Opens a transaction and begins the call in it. */
  async begin(actor: number, call: Call): Promise<void> {
    const backend = this.#backend(actor)
    backend.place = { at: 'moving' }
    backend.client.query(`begin isolation level ${call.isolation}; ${call.sql}`).then(
      results => backend.arrive({ at: 'returned', reply: replyOf(results as unknown as pg.QueryResult[]) }),
      error => backend.fail(error),
    )
    await this.#settle()
    await this.#afterFailure(backend)
  }

  /** Lets an actor go on from the gate it stands at. */
  async pass(actor: number): Promise<void> {
    const backend = this.#backend(actor)
    const { place } = backend
    if (place.at !== 'gate') throw new Error(`explorer: actor ${actor} is ${place.at}, not at a gate`)
    backend.place = { at: 'moving' }
    backend.turn = place.turn + 1
    const opened = this.control.query(
      `select pg_advisory_lock(${actor + 1}, ${place.turn + 1}), pg_advisory_unlock(${actor + 1}, ${place.turn})`,
    )
    await Promise.all([opened, this.#settle()])
    await this.#afterFailure(backend)
  }

  /** Commits, or rolls back what has failed. Answers the state afterwards. */
  async end(actor: number): Promise<State> {
    const backend = this.#backend(actor)
    const failed = backend.place.at === 'returned' && backend.place.reply.error !== undefined
    const results = await backend.client.query(
      `${failed ? 'rollback' : 'commit'}; select explorer.state() as state`,
    )
    backend.place = { at: 'rest' }
    await this.#release()
    return (results as unknown as pg.QueryResult<{ state: State }>[])[1]?.rows[0]?.state as State
  }

  /** Terminates the actor's backend, whatever it is doing, and gives the actor another. */
  async kill(actor: number): Promise<void> {
    const backend = this.#backend(actor)
    // The socket is closed at the very end, when the transaction's locks are gone.
    const gone = new Promise(resolve => backend.client.once('end', resolve))
    await this.control.query('select pg_terminate_backend($1)', [backend.pid])
    await gone
    const { place, turn } = backend
    const next = place.at === 'gate' ? place.turn + 1 : turn
    if (place.at === 'gate') {
      await this.control.query(
        `select pg_advisory_lock(${actor + 1}, ${next}), pg_advisory_unlock(${actor + 1}, ${place.turn})`,
      )
    }
    const successor = await this.#connect(actor)
    successor.turn = next
    this.#backends[actor] = successor
    await this.#release()
  }

  /** Waits until an actor that is blocked has moved of itself: only the server's deadlock detector does that. */
  async awaitDeadlock(actor: number): Promise<Place> {
    await this.#until(() => this.place(actor).at !== 'blocked')
    return this.place(actor)
  }

  /** Ends what is still running, and brings everything back to the beginning. Answers the state. */
  async restore(): Promise<State> {
    const running = this.#backends.filter(({ place }) => place.at !== 'rest' && place.at !== 'returned')
    for (const backend of running)
      backend.place = backend.place.at === 'blocked' ? { at: 'moving' } : backend.place
    if (running.length > 0) {
      await this.control.query('select pg_cancel_backend(pid) from unnest($1::int[]) pid', [
        running.map(({ pid }) => pid),
      ])
      await this.#until(() => running.every(({ place }) => place.at === 'returned'))
    }
    await Promise.all(
      this.#backends
        .filter(({ place }) => place.at === 'returned')
        .map(({ client }) => client.query('rollback')),
    )
    for (const backend of this.#backends) {
      backend.place = { at: 'rest' }
      backend.turn = 1
    }
    return (await this.control.query('select explorer.restore($1) as state', [this.#backends.length])).rows[0]
      .state
  }

  async close(): Promise<void> {
    await Promise.all([this.control.end(), ...this.#backends.map(({ client }) => client.end())])
  }

  // A transaction that fails gives up its locks at once, not at its rollback.
  async #afterFailure({ place }: Backend): Promise<void> {
    if (place.at === 'returned' && place.reply.error !== undefined) await this.#release()
  }

  // Locks may have been given up: who waited for one may be on its way.
  async #release(): Promise<void> {
    await this.#look(this.#backends.filter(({ place }) => place.at === 'blocked'))
    await this.#settle()
  }

  /** Until nobody moves: each is at a gate, has come back, or waits for somebody who does not move either. */
  async #settle(): Promise<void> {
    const moving = () => this.#backends.filter(({ place }) => place.at === 'moving')
    const started = performance.now()
    while (moving().length > 0) {
      // Most steps are done within this time; the look is for those that wait.
      await this.#change(1)
      if (moving().length === 0) break
      await this.#look(moving())
      if (performance.now() - started > patience) throw new Error(`explorer: stuck: ${this.#describe()}`)
    }
  }

  async #look(backends: readonly Backend[]): Promise<void> {
    if (backends.length === 0) return
    const { rows } = await this.control.query<{ pid: number; by: number[] }>(
      'select pid, pg_blocking_pids(pid) as by from unnest($1::int[]) pid',
      [backends.map(({ pid }) => pid)],
    )
    for (const backend of backends) {
      const pids = rows.find(({ pid }) => pid === backend.pid)?.by ?? []
      const by = pids.map(pid => this.#backends.findIndex(each => each.pid === pid))
      // Not ours: a vacuum, which ends of itself; or our own hold on a gate, whose notice is on its way.
      const waits = by.length > 0 && by.every(index => index >= 0)
      if (backend.place.at === 'moving' && waits) backend.place = { at: 'blocked', by }
      else if (backend.place.at === 'blocked')
        backend.place = waits ? { at: 'blocked', by } : { at: 'moving' }
    }
  }

  async #until(reached: () => boolean): Promise<void> {
    const started = performance.now()
    while (!reached()) {
      await this.#change(5)
      if (performance.now() - started > patience) throw new Error(`explorer: stuck: ${this.#describe()}`)
    }
  }

  /** Until a backend says something, and no longer than this. */
  #change(milliseconds: number): Promise<void> {
    return new Promise(resolve => {
      const timer = setTimeout(resolve, milliseconds)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  async #connect(index: number): Promise<Backend> {
    const client = await connect(this.#url, this.#schema, {
      'explorer.actor': String(index + 1),
      'explorer.points': this.#points[index] ?? '',
    })
    const { processID: pid } = client as unknown as { processID: number }
    const backend = new Backend(client, pid, () => this.#wake())
    client.on('notice', ({ message, detail }) => {
      const point = /^gate (\d+)$/.exec(message ?? '')?.[1]
      if (point) backend.arrive({ at: 'gate', point: Number(point), turn: Number(detail) })
    })
    return backend
  }

  #backend(actor: number): Backend {
    const backend = this.#backends[actor]
    if (!backend) throw new Error(`explorer: no actor ${actor}`)
    return backend
  }

  #describe(): string {
    return JSON.stringify(this.#backends.map(({ pid, place }) => ({ pid, ...place })))
  }
}
