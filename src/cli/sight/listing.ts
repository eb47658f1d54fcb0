import type { Held, Party, Pending } from '../../sight/query.ts'
import { type Cell, duration, table } from '../table.ts'

export function heldTable(held: readonly Held[]): string {
  const head = [
    'KEY',
    'MODE',
    'STATE',
    'TOKEN',
    'HOLDER',
    'APPLICATION',
    'LABEL',
    'SINCE',
    'TTL LEFT',
    'WAITING',
  ]
  const rows = held.map((each): Cell[] => [
    each.key,
    modeOf(each),
    each.state,
    each.token,
    nameOf(each),
    each.application,
    each.label,
    each.since.toISOString(),
    duration(each.ttlLeft),
    each.waiting,
  ])
  return table(head, rows)
}

export function pendingTable(pending: readonly Pending[]): string {
  const head = ['KEY', 'PLACE', 'MODE', 'WAITER', 'APPLICATION', 'LABEL', 'WAITED', 'TTL LEFT', 'HELD BY']
  const rows = pending.map((each): Cell[] => [
    each.key,
    each.place,
    modeOf(each),
    nameOf(each),
    each.application,
    each.label,
    duration(each.waited),
    duration(each.ttlLeft),
    namesOf(each.blockedBy),
  ])
  return table(head, rows)
}

/** Of permits: how many of how many. */
export function modeOf({ mode, permits, capacity }: Held | Pending): string {
  return mode === 'permits' ? `${permits} of ${capacity}` : mode
}

/** The first of them, and how many more there are. */
function namesOf([first, ...others]: readonly Party[]): string | null {
  if (first === undefined) return null
  return others.length === 0 ? nameOf(first) : `${nameOf(first) ?? '-'} and ${others.length} more`
}

/** The owner is host and pid unless the client says something else; then both are of use. */
export function nameOf({ owner, host, pid }: Party): string | null {
  const process = host === null ? null : `${host}:${pid ?? '?'}`
  return owner === null || process === null || owner === process
    ? (owner ?? process)
    : `${owner} (${process})`
}
