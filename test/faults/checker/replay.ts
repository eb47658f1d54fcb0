import type { Entry } from './history.ts'

/** Somebody in line, by the database's record. `mode` null: for an exclusive lock. */
export interface Waiting {
  readonly ticket: number
  readonly session: string | null
  readonly label: string | null
  readonly mode: string | null
  readonly permits: number
  /** One of several keys. */
  readonly isWide: boolean
}

/** Who holds a key and who waits for it, by the database's record. */
export interface KeyState {
  /** The exclusive grant, and behind it who follows in its run. */
  grant: Entry[]
  /** Shared locks or permits, by token. */
  readonly holders: Map<string, Entry>
  /** By request, in the order of the tickets. */
  readonly line: Map<string, Waiting>
  exists: boolean
  /** Of a head. Null: the key is held exclusively, or closed. */
  mode: string | null
  capacity: number
  level: string | null
  /** To be handed over by whoever comes by: its line is not served yet. */
  isMarked: boolean
  isResting: boolean
}

/** Each entry of a key, in order, with the state that it meets. The state is one object, which goes on to change. */
export function* replay(entries: readonly Entry[]): Generator<{ entry: Entry; state: KeyState }> {
  const state: KeyState = {
    grant: [],
    holders: new Map(),
    line: new Map(),
    exists: false,
    mode: null,
    capacity: 0,
    level: null,
    isMarked: false,
    isResting: false,
  }
  for (const entry of entries) {
    yield { entry, state }
    apply(state, entry)
  }
}

/** An exclusive grant that becomes a shared one, under its token. */
export const isDowngrade = ({ session, token }: Entry, { grant }: KeyState): boolean =>
  grant[0] !== undefined && grant[0].session === session && grant.some(one => one.token === token)

/** How many permits are out. */
export const permitsOut = ({ holders }: KeyState): number =>
  [...holders.values()].reduce((sum, { detail }) => sum + Number(detail.permits ?? 0), 0)

/** Whoever is next. Tickets rise along the line. */
export const firstOf = ({ line }: KeyState): Waiting | undefined => line.values().next().value

/** Whether somebody in line could be granted beside those who hold the key. */
export function fits(state: KeyState, { mode, permits }: Waiting): boolean {
  if (state.grant.length > 0) return false
  if (state.holders.size === 0) return true
  if (mode === null || mode !== state.mode) return false
  return mode === 'shared' || permitsOut(state) + permits <= state.capacity
}

function apply(state: KeyState, { event, token, request, session, label, detail, ...rest }: Entry): void {
  const entry = { event, token, request, session, label, detail, ...rest }
  switch (event) {
    case 'granted':
    case 'renumbered':
      Object.assign(state, {
        grant: [entry],
        exists: true,
        mode: null,
        level: null,
        isMarked: false,
        isResting: false,
      })
      return
    case 'run':
      state.grant.push(entry)
      return
    case 'marked':
      state.isMarked = true
      return
    case 'idle':
      state.grant = []
      return
    case 'freed':
      Object.assign(state, {
        grant: [],
        exists: false,
        mode: null,
        level: null,
        isMarked: false,
        isResting: false,
      })
      return
    case 'mended':
      Object.assign(state, { grant: [], exists: true })
      return
    case 'unheld':
      Object.assign(state, {
        mode: detail.mode ?? null,
        capacity: Number(detail.capacity ?? 0),
        level: detail.level ?? null,
        isMarked: detail.marked === true,
        isResting: detail.rests === true,
      })
      return
    case 'joined':
      state.holders.set(String(token), entry)
      return
    case 'left':
      state.holders.delete(String(token))
      return
    case 'ticket':
      state.line.set(String(request), {
        ticket: Number(detail.ticket),
        session,
        label,
        mode: (detail.mode as string | null | undefined) ?? null,
        permits: Number(detail.permits ?? 0),
        isWide: detail.wide === true,
      })
      return
    case 'unticket':
      state.line.delete(String(request))
  }
}
