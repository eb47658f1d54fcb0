import { beforeEach } from 'vitest'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { until } from '../support/until.ts'

export interface TickRow {
  readonly slot: string
  readonly state: string
  readonly attempt: number
  readonly owner: string | null
  readonly error: string | null
}

/** Milliseconds since 1970. */
export const at = (time: string): number => Date.parse(time)

/** A stage whose schedules go by a clock that the test moves: real time, and so much. */
export class ScheduleStage extends Stage {
  constructor() {
    super(ways['a pool'])
    beforeEach(async () => {
      // Not after each: the clients are closed by then only, and would announce themselves again.
      for (const table of ['ticks', 'schedule_nodes', 'schedules', 'once'])
        await this.db.query(`delete from ${this.sql(table)}`)
      await this.db.query('create table if not exists schedule_clock (shift interval not null)')
      await this.db.query('delete from schedule_clock')
      await this.db.query(`insert into schedule_clock values ('0')`)
      await this.db.query(
        `create or replace function ${this.sql('schedule_time')}() returns timestamptz language sql as
         $$ select clock_timestamp() + c.shift from public.schedule_clock c $$`,
      )
    })
  }

  /** The server's clock says this now, and goes on from there. */
  async setClock(time: string | number): Promise<void> {
    await this.db.query('update schedule_clock set shift = $1::timestamptz - clock_timestamp()', [
      new Date(time).toISOString(),
    ])
  }

  /** In order; slots as ISO 8601. */
  async ticks(name: string): Promise<TickRow[]> {
    return await this.db.query<TickRow & Record<string, unknown>>(
      `select to_char(slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as slot, state, attempt, owner, error
         from ${this.sql('ticks')} where name = $1 order by slot`,
      [name],
    )
  }

  /** Slots and states, such as `02:30 missed`. */
  async states(name: string): Promise<string[]> {
    return (await this.ticks(name)).map(({ slot, state }) => `${slot.slice(11, 16)} ${state}`)
  }

  /** Settles when that many ticks are in a state, and answers their slots. */
  async reached(name: string, state: string, count: number): Promise<string[]> {
    return await until(
      async () => {
        const found = (await this.ticks(name)).filter(tick => tick.state === state)
        return found.length >= count ? found.map(({ slot }) => slot) : undefined
      },
      { what: `${count} ticks of ${name} are ${state}` },
    )
  }
}
