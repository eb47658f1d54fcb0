import { definitionOf } from './definition.ts'
import { Timetable } from './timetable.ts'

export type TickState = 'due' | 'started' | 'finished' | 'failed' | 'skipped' | 'missed'

/** A tick, by its row. */
export interface TickOverview {
  readonly slot: Date
  readonly state: TickState
  /** How often it was started. */
  readonly attempt: number
  /** Who started it last, by what their client says of itself. */
  readonly owner: string | null
  /** What its last attempt failed with. */
  readonly error: string | null
  readonly startedAt: Date | null
  readonly endedAt: Date | null
}

/** A node whose definition is not the one that rules. */
export interface Drift {
  readonly owner: string | null
  readonly version: number | null
  readonly cron: string
  readonly timezone: string
  /** All of its definition. */
  readonly definition: Readonly<Record<string, unknown>>
}

export interface ScheduleOverview {
  /** Namespace included. */
  readonly name: string
  readonly cron: string
  readonly timezone: string
  readonly version: number | null
  /** All of the definition that rules. */
  readonly definition: Readonly<Record<string, unknown>>
  /** By the server's clock; null: there is none any more, or this process cannot read the expression. */
  readonly next: Date | null
  readonly last: TickOverview | null
  /** How many ticks there are in each state, as long as their rows are kept. */
  readonly counts: Readonly<Record<TickState, number>>
  /** How many processes run it. */
  readonly nodes: number
  readonly drift: readonly Drift[]
}

interface RawTick extends Omit<TickOverview, 'slot' | 'startedAt' | 'endedAt'> {
  readonly slot: number
  readonly startedAt: number | null
  readonly endedAt: number | null
}
interface RawSchedule {
  readonly name: string
  readonly definition: Record<string, unknown>
  readonly version: number | null
  readonly upto: number
  readonly now: number
  readonly nodes: number
  readonly drift: readonly Pick<Drift, 'owner' | 'version' | 'definition'>[]
  readonly counts: Partial<Record<TickState, number>>
  readonly last: RawTick | null
}

/** @param json what the SQL function `query_schedules` answers */
export function overviewOf(json: string): readonly ScheduleOverview[] {
  return (JSON.parse(json) as RawSchedule[]).map(raw => {
    const { name, version, nodes, definition, last } = raw
    const { cron, timezone } = definitionOf(definition)
    return {
      name,
      cron,
      timezone,
      version,
      definition,
      next: nextOf(cron, timezone, Math.max(raw.now, raw.upto)),
      last: last && {
        ...last,
        slot: new Date(last.slot),
        startedAt: dateOf(last.startedAt),
        endedAt: dateOf(last.endedAt),
      },
      counts: { due: 0, started: 0, finished: 0, failed: 0, skipped: 0, missed: 0, ...raw.counts },
      nodes,
      drift: raw.drift.map(each => ({ ...each, ...zoneOf(each.definition) })),
    }
  })
}

function zoneOf(definition: Drift['definition']): { cron: string; timezone: string } {
  const { cron, timezone } = definitionOf(definition)
  return { cron, timezone }
}

function nextOf(cron: string, timezone: string, after: number): Date | null {
  try {
    return dateOf(new Timetable(cron, timezone).next(after) ?? null)
  } catch {
    return null
  }
}

const dateOf = (at: number | null): Date | null => (at === null ? null : new Date(at))
