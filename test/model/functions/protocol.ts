/**
 * What the SQL functions do, one call after another, without SQL: a map of grants, a queue for each key, and which
 * sessions are alive. `functions.test.ts` compares the two after each call.
 */

export interface SessionState {
  generation: number
  /** Its time is over, but nobody has said so yet. */
  expired: boolean
  died: boolean
}

export interface GrantState {
  session: string | null
  request: string | null
  released: boolean
  /** Taken by hand: and, `due`, the last renewal before that has run out. */
  forced: 'no' | 'marked' | 'due'
  /** How many of the line it was granted to in advance. */
  readonly length: number
  /** Grants are numbered: another number, another token. */
  readonly number: number
}

export interface Ticket {
  readonly request: string
  readonly session: string
  /** In the run of the grant with this number, so many behind. */
  inRun?: { readonly number: number; readonly place: number }
}

export interface Want {
  readonly key: string
  readonly request: string
  readonly waits: boolean
}

export interface Pair {
  readonly key: string
  /** How far behind the key's present grant the token is; undefined: it is none of it. */
  readonly place: number | undefined
}

/** What a call says. Tokens are left out: a grant's is that of the key's row. */
export interface Said {
  readonly outcome: string
  readonly key?: string
  readonly request?: string | null
  /** How far behind the grant in a run. */
  readonly place?: number
  /** Whose channel is to be told. */
  readonly told?: string
}

export class Protocol {
  readonly sessions = new Map<string, SessionState>()
  readonly grants = new Map<string, GrantState>()
  readonly lines = new Map<string, Ticket[]>()
  /** Which key each guard pins. */
  readonly guards = new Map<number, string>()
  #granted = 0

  open(id: string): boolean {
    const session = this.sessions.get(id)
    if (!session) this.sessions.set(id, { generation: 1, expired: false, died: false })
    return session === undefined || !(session.died || session.expired)
  }

  acquire(id: string, generation: number, wants: readonly Want[]): Said[] {
    const session = this.sessions.get(id)
    if (!session || session.died || session.expired || session.generation !== generation) {
      return wants.map(({ request }) => ({ outcome: 'dead', request }))
    }
    const inOrder = byKey(wants)
    const free = inOrder.filter(({ key, request }) => {
      if (this.grants.has(key)) return false
      this.#grant(key, id, request)
      return true
    })
    const taken = inOrder.filter(want => !free.includes(want))
    const keys = [...new Set(taken.map(({ key }) => key))]
    return [
      ...free.map(({ key, request }) => ({ outcome: 'granted', key, request })),
      ...keys.flatMap(key =>
        this.#enqueue(
          id,
          key,
          taken.filter(want => want.key === key),
        ),
      ),
    ]
  }

  #enqueue(id: string, key: string, wants: readonly Want[]): Said[] {
    const held = this.grants.get(key)
    if (!held) return wants.map(({ request }) => ({ outcome: 'again', key, request }))
    const isMine = held.session === id && !held.released
    const repeated = isMine ? wants.find(({ request }) => request === held.request) : undefined
    const others = wants.filter(want => want !== repeated)
    for (const { request } of others.filter(({ waits }) => waits)) {
      if (!this.#line(key).some(ticket => ticket.request === request)) {
        this.#line(key).push({ request, session: id })
      }
    }
    const still = (but?: string | null) =>
      others
        .filter(({ request }) => request !== but)
        .map(({ request, waits }) => ({ outcome: waits ? 'queued' : 'busy', key, request }))
    if (repeated) return [...this.#members(key), ...still()]
    if (!held.released && held.forced !== 'due' && this.#judge(held.session)) return still()
    const moved = this.#take(key, id)
    if (moved.outcome === 'free') return wants.map(({ request }) => ({ outcome: 'again', key, request }))
    return [...this.#tell(moved), ...still(moved.outcome === 'granted' ? moved.request : null)]
  }

  /** Of grants, or of a place in a run: then whoever is before it there has had its turn. */
  release(id: string, pairs: readonly Pair[]): Said[] {
    // Those that nobody waits for go first, in one step.
    const free = pairs.filter(pair => this.#isTheirs(id, pair) && this.#isSimple(pair.key))
    for (const { key } of free) this.grants.delete(key)
    // Of a run the last first: it gives up all that are before it.
    const rest = byKey(
      pairs.filter(pair => !free.includes(pair)).sort((one, other) => (other.place ?? 0) - (one.place ?? 0)),
    )
    const before = new Map(this.grants)
    return [
      ...free.map(({ key }) => ({ outcome: 'released', key })),
      ...rest.flatMap(pair => {
        const isSame = this.grants.get(pair.key) === before.get(pair.key)
        if (!isSame || !this.#isTheirs(id, pair)) return [{ outcome: 'absent', key: pair.key }]
        this.#serve(pair)
        const moved = this.#take(pair.key, id)
        const outcome = moved.outcome === 'pinned' ? 'pinned' : 'released'
        return [{ outcome, key: pair.key }, ...this.#tell(moved)]
      }),
    ]
  }

  /** Of one grant, whose key is asked for anew. */
  releaseAndAcquire(id: string, generation: number, pair: Pair, requests: readonly string[]): Said[] {
    const { key } = pair
    const session = this.sessions.get(id)
    if (!session || session.died || session.expired || session.generation !== generation) {
      return [{ outcome: 'again', key }, ...requests.map(request => ({ outcome: 'dead', request }))]
    }
    const wants = requests.map(request => ({ key, request, waits: true }))
    if (!this.#isTheirs(id, pair)) return [{ outcome: 'absent', key }, ...this.#enqueue(id, key, wants)]
    this.#serve(pair)
    const [first, ...others] = requests as [string, ...string[]]
    if (this.#line(key).length === 0 && !this.#isPinned(key)) {
      this.#line(key).push(...others.map(request => ({ request, session: id })))
      this.#grant(key, id, first)
      return this.#members(key)
    }
    const moved = this.#take(key, id)
    const outcome = moved.outcome === 'pinned' ? 'pinned' : 'released'
    return [{ outcome, key }, ...this.#tell(moved), ...this.#enqueue(id, key, wants)]
  }

  turn(id: string, { key, place }: Pair): void {
    const held = this.grants.get(key)
    const own = this.#followers(key).find(({ inRun }) => inRun?.place === place)
    if (!held || held.session !== id || held.released || !own) return
    this.#serve({ key, place })
    held.request = own.request
  }

  cancel(id: string, wants: readonly { key: string; request: string }[]): Said[] {
    return byKey(wants).flatMap(({ key, request }) => {
      const line = this.#line(key)
      const place = line.findIndex(ticket => ticket.request === request && ticket.session === id)
      if (place >= 0) line.splice(place, 1)
      let outcome = place >= 0 ? 'cancelled' : 'absent'
      const held = this.grants.get(key)
      let moved: Said | undefined
      const isTheirs = held?.session === id && (held.request === request || held.request === null)
      if (held && isTheirs && !held.released && this.#followers(key).length > 0) {
        if (held.request !== null) outcome = 'cancelled'
        held.request = null
      } else if (isTheirs && held.request === null && !held.released) {
        moved = this.#take(key, id)
      } else if (held && held.request === request && held.session === id) {
        moved = this.#take(key, id)
        outcome = moved.outcome === 'pinned' ? 'pinned' : 'released'
      } else if (held?.released) moved = this.#take(key, id)
      return [{ outcome, key, request }, ...this.#tell(moved)]
    })
  }

  tick(id: string, wants: readonly { key: string; request: string }[], overAll: boolean): Said[] {
    const asked = new Set(wants.map(({ key }) => key))
    const holders = [...asked].map(key => this.grants.get(key)?.session)
    for (const [session, state] of this.sessions) {
      if (state.expired && (overAll || holders.includes(session))) this.#bury(session)
    }
    const said: Said[] = []
    for (const key of [...this.grants.keys()].sort()) {
      const held = this.grants.get(key) as GrantState
      if (!held.released && held.forced !== 'due' && this.#isAlive(held.session)) continue
      if (!(overAll || asked.has(key) || (held.released && held.session === id))) continue
      const moved = this.#take(key, id)
      if (moved.outcome === 'handed') said.push(moved)
    }
    if (overAll) this.#clearAway()
    for (const { key, request } of wants) {
      const held = this.grants.get(key)
      const isMine = held?.request === request && held.session === id && !held.released
      const waits = this.#line(key).some(ticket => ticket.request === request)
      said.push({ outcome: isMine ? 'granted' : waits ? 'queued' : 'again', key, request })
    }
    for (const key of asked) {
      const held = this.grants.get(key)
      if (held && held.session === id && !held.released && held.length > 0) said.push(...this.#members(key))
    }
    return said
  }

  /** Whether it is renewed. */
  heartbeat(id: string): boolean {
    const session = this.sessions.get(id)
    return session !== undefined && !session.died && !session.expired
  }

  /** The keys that a session holds by the account of the heartbeat. */
  held(id: string): string[] {
    const isTheirs = (held: GrantState) => held.session === id && !held.released && held.forced === 'no'
    return [...this.grants].filter(([, held]) => isTheirs(held)).map(([key]) => key)
  }

  raise(id: string, generation: number): number | null {
    const session = this.sessions.get(id)
    if (!session || session.died) return null
    if (session.generation === generation) session.generation += 1
    return session.generation === generation + 1 ? session.generation : null
  }

  expire(id: string): void {
    const session = this.sessions.get(id)
    if (session && !session.died) session.expired = true
  }

  close(id: string): Said[] {
    const session = this.sessions.get(id)
    if (!session) return []
    session.died = true
    session.generation += 1
    const said: Said[] = []
    for (const key of [...this.grants.keys()].sort()) {
      const held = this.grants.get(key) as GrantState
      const waits = this.#line(key).some(ticket => ticket.session === id)
      if (held.session !== id && !waits) continue
      this.lines.set(
        key,
        this.#line(key).filter(ticket => ticket.session !== id),
      )
      if (!held.released && held.session !== id) continue
      const moved = this.#take(key, id)
      if (moved.outcome === 'handed') said.push(moved)
    }
    if (!this.#isNamed(id)) this.sessions.delete(id)
    return said
  }

  /** Whether the pin is granted. */
  pin(guard: number, key: string, current: boolean): boolean {
    const held = this.grants.get(key)
    if (!current || !held || held.released || held.forced !== 'no' || !this.#isAlive(held.session))
      return false
    this.guards.set(guard, key)
    return true
  }

  unpin(guard: number): void {
    this.guards.delete(guard)
  }

  /** By hand. @param current whether the token is that of the key's present grant */
  force(key: string, current: boolean, now: boolean): Said[] {
    const held = this.grants.get(key)
    if (!held || held.session === null || !current) return [{ outcome: 'absent', key }]
    const holder = this.sessions.get(held.session)
    if (now || holder?.expired) held.forced = 'due'
    if (held.forced === 'no') held.forced = 'marked'
    if (!held.released && held.forced !== 'due' && this.#isAlive(held.session))
      return [{ outcome: 'forced', key }]
    const moved = this.#take(key, 'nobody')
    return [{ outcome: moved.outcome === 'pinned' ? 'pinned' : 'released', key }, ...this.#tell(moved)]
  }

  /** Time passes over a mark. */
  due(key: string): void {
    const held = this.grants.get(key)
    if (held?.forced === 'marked') held.forced = 'due'
  }

  #grant(key: string, session: string, request: string): void {
    this.#granted += 1
    const number = this.#granted
    const line = this.#line(key)
    const others = line.findIndex(ticket => ticket.session !== session)
    const length = others < 0 ? line.length : others
    for (const [i, ticket] of line.slice(0, length).entries()) ticket.inRun = { number, place: i + 1 }
    this.grants.set(key, { session, request, released: false, forced: 'no', length, number })
  }

  /** Of the run of the key's present grant. */
  #followers(key: string): Ticket[] {
    const number = this.grants.get(key)?.number
    return this.#line(key).filter(({ inRun }) => inRun !== undefined && inRun.number === number)
  }

  /** Whose grant it is, all of a run. */
  requests(key: string): string[] {
    const first = this.grants.get(key)?.request
    return [...(first ? [first] : []), ...this.#followers(key).map(({ request }) => request)]
  }

  #members(key: string): Said[] {
    const first: Said = { outcome: 'granted', key, request: this.grants.get(key)?.request ?? null }
    const followers = this.#followers(key).map(({ request, inRun }) => {
      return { outcome: 'follows', key, request, place: inRun?.place ?? 0 }
    })
    return [first, ...followers]
  }

  #tell(moved: Said | undefined): Said[] {
    if (moved?.outcome === 'handed') return [moved]
    return moved?.outcome === 'granted' ? this.#members(moved.key as string) : []
  }

  /** Who had a turn in the run up to this place is in line no more. */
  #serve({ key, place }: Pair): void {
    const served = this.#followers(key).filter(({ inRun }) => inRun && inRun.place <= Number(place))
    this.#lineWithout(key, ticket => served.includes(ticket))
  }

  #lineWithout(key: string, isOut: (ticket: Ticket) => boolean): void {
    this.lines.set(
      key,
      this.#line(key).filter(ticket => !isOut(ticket)),
    )
  }

  #line(key: string): Ticket[] {
    const line = this.lines.get(key) ?? []
    this.lines.set(key, line)
    return line
  }

  #isTheirs(id: string, pair: Pair): boolean {
    return pair.place !== undefined && this.grants.get(pair.key)?.session === id
  }

  #isSimple(key: string): boolean {
    const held = this.grants.get(key)
    return this.#line(key).length === 0 && held?.length === 0 && !held.released && !this.#isPinned(key)
  }

  #isPinned(key: string): boolean {
    return [...this.guards.values()].includes(key)
  }

  #isAlive(id: string | null): boolean {
    const session = id === null ? undefined : this.sessions.get(id)
    return session !== undefined && !session.died
  }

  #judge(id: string | null): boolean {
    if (id !== null) this.#bury(id)
    return this.#isAlive(id)
  }

  #bury(id: string): void {
    const session = this.sessions.get(id)
    if (!session?.expired || session.died) return
    session.died = true
    session.generation += 1
  }

  #isNamed(id: string): boolean {
    const held = [...this.grants.values()].some(({ session }) => session === id)
    return held || [...this.lines.values()].flat().some(({ session }) => session === id)
  }

  #clearAway(): void {
    for (const [key, line] of this.lines) {
      this.lines.set(
        key,
        line.filter(({ session }) => this.#isAlive(session)),
      )
    }
    for (const [id, { died }] of this.sessions) if (died && !this.#isNamed(id)) this.sessions.delete(id)
  }

  #take(key: string, caller: string): Said {
    const held = this.grants.get(key) as GrantState
    if (this.#isPinned(key)) {
      held.released = true
      return { outcome: 'pinned', key }
    }
    const line = this.#line(key)
    let next = line.shift()
    while (next && !this.#isAlive(next.session)) next = line.shift()
    if (!next) {
      this.grants.delete(key)
      return { outcome: 'free', key }
    }
    this.#grant(key, next.session, next.request)
    if (next.session === caller) return { outcome: 'granted', key, request: next.request }
    return { outcome: 'handed', key, told: next.session }
  }
}

/** In the order of the keys; those of one key as they came. */
function byKey<T extends { readonly key: string }>(wants: readonly T[]): T[] {
  return [...wants].sort((one, other) => (one.key < other.key ? -1 : one.key > other.key ? 1 : 0))
}
