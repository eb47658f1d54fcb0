import { randomUUID } from 'node:crypto'
import type { Fencepost, Lock } from '../../src/index.ts'
import type { ScheduleStage } from './stage.ts'

/** A row of the SQL type `schedule_state`. */
export interface State {
  readonly definition: { readonly cron: string; readonly [member: string]: unknown }
  readonly version: number | null
  readonly edition: number
  readonly upto: string
  readonly open: boolean
  readonly drifts: boolean
  readonly server_time: number
  readonly slot: string | null
  readonly attempt: number | null
}

/** A node that asks by SQL, call by call, as a test says. Its slots are those that the test names. */
export class Node {
  readonly name: string
  readonly id: string = randomUUID()
  lock: Lock | undefined
  edition = 1
  readonly #stage: ScheduleStage
  readonly #client: Fencepost

  constructor(stage: ScheduleStage, name: string, client: Fencepost = stage.client()) {
    this.#stage = stage
    this.#client = client
    this.name = name
  }

  async announce(definition: object, version: number | null = null): Promise<State> {
    return await this.#state('announce_schedule', [
      this.name,
      this.id,
      { cron: '* * * * *', timezone: 'UTC', ...definition },
      version,
      this.id,
    ])
  }

  async look(): Promise<State> {
    return await this.#state('look_schedule', [this.name, this.id])
  }

  async leave(): Promise<void> {
    await this.#stage.db.query(`select ${this.#stage.sql('leave_schedule')}($1, $2)`, [this.name, this.id])
  }

  async lease(): Promise<Lock> {
    this.lock = await this.#client.acquire(`${this.name}:schedule`)
    return this.lock
  }

  async release(): Promise<void> {
    await this.lock?.release()
  }

  /** As if its process had died: its session is buried, and it is not told. */
  async die(): Promise<void> {
    await this.#stage.bury(this.#client)
  }

  async take(
    slots: readonly (string | number)[],
    { starts = true, followed = false }: { starts?: boolean; followed?: boolean } = {},
  ): Promise<State> {
    const times = slots.map(slot => new Date(slot).getTime())
    return await this.#state('take_tick', [
      this.name,
      this.lock?.ownToken,
      this.edition,
      times,
      this.id,
      starts,
      followed,
    ])
  }

  async end(started: State, error: string | null = null): Promise<boolean> {
    const [row] = await this.#stage.db.query<{ ended: boolean }>(
      `select ${this.#stage.sql('end_tick')}($1, $2, $3, $4, $5, $6) as ended`,
      [this.name, this.lock?.ownToken, started.slot, started.attempt, error !== null, error],
    )
    return row?.ended ?? false
  }

  async #state(name: string, values: unknown[]): Promise<State> {
    const places = values.map((_, i) => `$${i + 1}`)
    const [row] = await this.#stage.db.query<State & Record<string, unknown>>(
      `select * from ${this.#stage.sql(name)}(${places.join(', ')})`,
      values,
    )
    return row as State
  }
}
