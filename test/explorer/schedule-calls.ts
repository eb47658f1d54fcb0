import { escapeLiteral } from 'pg'
import { type Call, type Place, sessionId } from './calls.ts'

/** Milliseconds since 1970 of the explorer's second 0. */
const beginning = Date.UTC(2026, 0, 1)

/** `n1` is node 1. */
const nodeId = (name: string): string => `20000000-0000-0000-0000-${name.slice(1).padStart(12, '0')}`

export const leaseOf = (schedule: string): string => `${schedule}:schedule`

interface Definition {
  readonly version?: number
  readonly cron?: string
  readonly attempts?: number
  readonly overlap?: 'skip' | 'queue'
}

/** A node says what it runs. */
export function announce(schedule: string, node: string, { version, ...rest }: Definition = {}): Call {
  const definition = JSON.stringify({ cron: '* * * * * *', timezone: 'UTC', ...rest })
  return byNobody(
    'announce_schedule',
    `${escapeLiteral(schedule)}, '${nodeId(node)}', ${escapeLiteral(definition)}, ${version ?? 'null'}`,
    `${node} announces ${schedule}${rest.cron ? ' by another expression' : ''}${version ? ` of version ${version}` : ''}`,
    [{ key: schedule }],
  )
}

export const leave = (schedule: string, node: string): Call =>
  byNobody('leave_schedule', `${escapeLiteral(schedule)}, '${nodeId(node)}'`, `${node} leaves ${schedule}`)

/** By who has the schedule's lease under that token: records slots, in seconds, and starts the next. */
export function take(
  session: string,
  lease: Place,
  slots: readonly number[],
  { edition = 1, starts = true }: { edition?: number; starts?: boolean } = {},
): Call {
  const named = `array[${slots.map(slot => beginning + slot * 1_000)}]::bigint[]`
  return underLease(
    session,
    lease,
    `select null::uuid request, coalesce((slot - ${beginning}) || ' ' || attempt, 'nothing') outcome,
            null::bigint token, null::text key
       from take_tick(${escapeLiteral(scheduleOf(lease))}, ${lease.token}, ${edition}, ${named}, starts => ${starts})`,
    'take_tick',
    starts ? `takes ${slots.join(' and ')}` : `records ${slots.join(' and ')}`,
  )
}

export const end = (session: string, lease: Place, slot: number, attempt = 1, failed = false): Call =>
  underLease(
    session,
    lease,
    `select null::uuid request, ended::text outcome, null::bigint token, null::text key
       from end_tick(${escapeLiteral(scheduleOf(lease))}, ${lease.token}, ${beginning + slot * 1_000}, ${attempt}, ${failed}) ended`,
    'end_tick',
    `ends attempt ${attempt} at ${slot}`,
  )

/** By who has the lease `KEY:once` under that token. */
export const record = (session: string, lease: Place, result: string, within = 60): Call =>
  underLease(
    session,
    lease,
    `select null::uuid request, 'recorded' outcome, null::bigint token, null::text key
       from record_once(${escapeLiteral(onceOf(lease))}, ${lease.token}, ${escapeLiteral(JSON.stringify(result))}, ${within * 1_000})`,
    'record_once',
    `records ${result}`,
  )

export const scheduleOf = ({ key }: Place): string => key.replace(/:schedule$/, '')
export const onceOf = ({ key }: Place): string => key.replace(/:once$/, '')

/** What a taker was told that it has started. */
export function startedOf(outcome: string | undefined): { slot: number; attempt: number } | undefined {
  const [, slot, attempt] = /^(\d+) (\d+)$/.exec(outcome ?? '') ?? []
  return slot === undefined ? undefined : { slot: Number(slot) / 1_000, attempt: Number(attempt) }
}

function underLease(session: string, lease: Place, sql: string, name: string, words: string): Call {
  return {
    function: name,
    session: sessionId(session),
    places: [lease],
    generation: 1,
    isolation: 'read committed',
    sql,
    words: `${session} ${words} under ${lease.token}`,
  }
}

function byNobody(name: string, values: string, words: string, places: readonly Place[] = []): Call {
  return {
    function: name,
    session: undefined,
    places,
    generation: 1,
    isolation: 'read committed',
    sql: `select null::uuid request, 'done' outcome, null::bigint token, null::text key from ${name}(${values})`,
    words,
  }
}
