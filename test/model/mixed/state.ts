/** What is committed, as one value: sessions, who holds which key, and who waits for it. */
export interface State {
  readonly sessions: ReadonlyMap<string, { readonly died: boolean; readonly expired: boolean }>
  readonly rows: ReadonlyMap<string, Row>
  readonly grants: readonly Grant[]
  /** In the order of the tickets. */
  readonly tickets: readonly Ticket[]
}

interface Row {
  readonly key: string
  readonly mode: 'shared' | 'permits' | null
  readonly capacity: number | null
  readonly session: string | null
  readonly token: string
  readonly last: string
  readonly contended: boolean
  readonly rests: boolean
}

export interface Grant {
  readonly key: string
  readonly session: string
  /** Null: it was given up, and those of its process behind it are not through. */
  readonly request: string | null
  readonly mode: Mode
  readonly permits: number | null
  readonly token: string
  readonly level: string | null
  readonly released: boolean
  readonly forced: 'no' | 'marked' | 'due'
}

export interface Ticket {
  readonly key: string
  readonly session: string
  readonly request: string
  readonly mode: Mode
  readonly permits: number | null
  readonly wide: boolean
  readonly token: string | null
}

type Mode = 'exclusive' | 'shared' | 'permits'

export const isLive = (state: State, session: string): boolean => state.sessions.get(session)?.died === false

export const grantsOf = (state: State, key: string): Grant[] =>
  state.grants.filter(grant => grant.key === key)

/** Whether a ticket was granted in advance, in the run of who holds the key. */
export function isInRun(state: State, { key, session, token }: Ticket): boolean {
  const row = state.rows.get(key)
  if (token === null || row?.session !== session) return false
  return BigInt(token) > BigInt(row.token) && BigInt(token) <= BigInt(row.last)
}

/** Who waits for a key, and was not granted it in advance. */
export const lineOf = (state: State, key: string): Ticket[] =>
  state.tickets.filter(ticket => ticket.key === key && !isInRun(state, ticket))

/** Whether permits that its process has may be passed on to a ticket: nobody else stands before it. */
export function mayFollow(state: State, ticket: Ticket): boolean {
  const { key, session, permits } = ticket
  const line = lineOf(state, key)
  const before = line.slice(0, line.findIndex(({ request }) => request === ticket.request) + 1)
  return (
    ticket.mode === 'permits' &&
    before.every(other => other.session === session && other.permits === permits) &&
    grantsOf(state, key).some(grant => grant.session === session && grant.permits === permits)
  )
}

/** Whether a ticket could be served beside those who hold its key. */
function fits(state: State, { key, mode, permits }: Ticket): boolean {
  const row = state.rows.get(key)
  const held = grantsOf(state, key)
  if (row?.rests) return false
  if (held.length === 0 && mode !== 'permits') return true
  if (held.some(grant => grant.mode !== mode) || mode === 'exclusive') return false
  if (mode === 'shared') return true
  const used = held.reduce((sum, grant) => sum + (grant.permits ?? 0), 0)
  return used + (permits ?? 0) <= (row?.capacity ?? 0)
}

/** The first of a line whose session lives: nobody else may be served. */
const firstOf = (state: State, key: string): Ticket | undefined =>
  lineOf(state, key).find(({ session }) => isLive(state, session))

/** Who could be served now, and is not. A request for several keys has to head the lines of all of them. */
export function forgotten(state: State, keys: Iterable<string>, several: boolean): Ticket[] {
  return [...keys].flatMap(key => {
    const first = firstOf(state, key)
    if (!first || !fits(state, first)) return []
    if (!first.wide) return [first]
    const all = state.tickets.filter(({ request }) => request === first.request)
    const isHeadOfAll = all.every(
      ticket => firstOf(state, ticket.key)?.request === ticket.request && fits(state, ticket),
    )
    return several && isHeadOfAll ? [first] : []
  })
}
