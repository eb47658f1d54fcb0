import type { Event } from './history.ts'

const counted = new Set(['acquire', 'release', 'write'])

/** Operations that have ended, however they ended. */
export function operations(events: readonly Event[]): number {
  return events.filter(({ op, phase }) => counted.has(op) && phase !== 'invoke').length
}

/** The share of tenths of a second, from the first grant to the last, in which some grant was answered. */
export function availability(events: readonly Event[]): number {
  const slots = new Set<number>()
  for (const { op, phase, t } of events)
    if (op === 'acquire' && phase === 'ok') slots.add(Math.floor(t / 100))
  if (slots.size === 0) return 0
  const all = [...slots].sort((a, b) => a - b)
  return slots.size / ((all.at(-1) ?? 0) - (all[0] ?? 0) + 1)
}
