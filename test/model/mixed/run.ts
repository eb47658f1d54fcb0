import { expect } from 'vitest'
import { checkAnswers, heldBy } from './answers.ts'
import { type Command, guards, locks, semaphores, slots } from './commands.ts'
import { type Answer, type Ask, type Database, newId } from './database.ts'
import { type Call, Rules } from './rules.ts'
import { forgotten, isLive, type State } from './state.ts'

type Wanted = Extract<Command, { do: 'acquire' }>['wants'][number]

interface Granted {
  readonly key: string
  readonly session: string
  readonly token: string
}

/** Runs commands on the database, and asks the rules after each. */
export class Run {
  readonly #database: Database
  readonly #seen: Map<string, number>
  readonly #rules = new Rules()
  readonly #slots: string[] = Array.from({ length: slots }, newId)
  readonly #capacities = new Map(semaphores.map(key => [key, 3]))
  /** The latest first. */
  readonly #asked: { session: string; ask: Ask }[] = []
  readonly #granted: Granted[] = []
  readonly #busy = new Set<number>()
  #state: State | undefined

  constructor(database: Database, seen: Map<string, number>) {
    this.#database = database
    this.#seen = seen
  }

  async begin(): Promise<void> {
    this.#state = await this.#database.state()
    for (let slot = 0; slot < slots; slot++) await this.step({ do: 'open', slot })
  }

  async step(command: Command): Promise<void> {
    const database = this.#database
    const session = 'slot' in command ? (this.#slots[command.slot] as string) : ''
    switch (command.do) {
      case 'open':
        if (this.#isOpen(session)) return
        this.#slots[command.slot] = newId()
        expect(await database.open(this.#slots[command.slot] as string)).toBe(true)
        return await this.#check({ name: 'open', looks: [], answers: [] })
      case 'acquire':
        return await this.#acquire(
          session,
          command.wants.flatMap(want => this.#ask(want)),
        )
      case 'repeat': {
        const theirs = this.#asked.filter(asked => asked.session === session)
        const requests = new Set(pick(theirs, command.requests).map(({ ask }) => ask.request))
        const known = unique(theirs.map(({ ask }) => ask))
        const asks = known.filter(ask => requests.has(ask.request) && this.#isUp(ask))
        return asks.length > 0 ? await this.#acquire(session, asks) : undefined
      }
      case 'release': {
        const pairs = ofOne(pick(this.#grants(), command.grants))
        const [first] = pairs
        if (!first) return
        const answers = await database.release(first.session, pairs)
        const given = answers.filter(({ outcome }) => outcome === 'released').map(({ token }) => token)
        const looks = pairs.filter(({ token }) => given.includes(token)).map(({ key }) => key)
        return await this.#check({ name: 'release', session: first.session, released: pairs, looks, answers })
      }
      case 'anew': {
        const [grant] = pick(this.#grants(), [command.grant])
        if (!grant || this.#rules.seized.has(grant.session) || semaphores.includes(grant.key)) return
        const { key, session: holder } = grant
        const asks = Array.from({ length: command.requests }, () => exclusive(key))
        this.#asked.unshift(...asks.map(ask => ({ session: holder, ask })))
        const requests = asks.map(({ request }) => request)
        const answers = await database.releaseAndAcquire(holder, grant, requests)
        const call = { name: 'anew', session: holder, asks, released: [grant], looks: [key], answers }
        const before = this.#now
        await this.#check(call)
        if (!this.#isOpen(holder)) return
        checkAnswers(before, this.#now, asks, answers)
        return
      }
      case 'cancel': {
        const [first, ...rest] = pick(this.#asked, command.requests)
        if (!first) return
        const requests = [first, ...rest].filter(({ session: by }) => by === first.session)
        const names = new Set(requests.map(({ ask }) => ask.request))
        const cancelled = unique(
          this.#asked.map(({ ask }) => ask).filter(({ request }) => names.has(request)),
        )
        const answers = await database.cancel(first.session, cancelled)
        const looks = cancelled.map(({ key }) => key)
        return await this.#check({ name: 'cancel', session: first.session, cancelled, looks, answers })
      }
      case 'downgrade': {
        const [grant] = pick(this.#grants(), [command.grant])
        if (!grant) return
        const answers = await database.downgrade(grant.session, grant)
        const isExclusive = this.#now.rows.get(grant.key)?.mode === null
        const looks = isExclusive && answers.some(({ outcome }) => outcome === 'granted') ? [grant.key] : []
        return await this.#check({ name: 'downgrade', session: grant.session, looks, answers })
      }
      case 'resize': {
        const key = semaphores[command.key] as string
        const answers = await database.resize(session, key, command.capacity)
        if (answers.some(({ outcome }) => outcome === 'resized')) this.#capacities.set(key, command.capacity)
        return await this.#check({ name: 'resize', session, resized: key, looks: [key], answers })
      }
      case 'tick':
        return await this.#tick(session, command.overAll)
      case 'heartbeat':
        if (this.#rules.seized.has(session)) return
        expect(await database.heartbeat(session)).toEqual({
          renewed: this.#isOpen(session),
          ...heldBy(this.#now, session),
        })
        return await this.#check({ name: 'heartbeat', looks: [], answers: [] })
      case 'settle': {
        const rows = await database.settle(session)
        const { held, tokens } = heldBy(this.#now, session)
        expect(rows.length).toBe(held)
        expect(rows.reduce((xor, { token }) => xor ^ BigInt(token), 0n)).toBe(tokens)
        return
      }
      case 'expire':
        if (this.#rules.seized.has(session)) return
        await database.expire(session)
        return await this.#check({ name: 'expire', looks: [], answers: [] })
      case 'close': {
        if (this.#rules.seized.has(session)) return
        const looks = [...this.#now.tickets, ...this.#now.grants].filter(each => each.session === session)
        const answers = await database.close(session)
        return await this.#check({ name: 'close', session, looks: looks.map(({ key }) => key), answers })
      }
      case 'force': {
        const [grant] = pick(this.#grants(), [command.grant])
        // It waits for whoever has the session's row.
        if (!grant || this.#rules.seized.size > 0) return
        const forced = { key: grant.key, token: command.whole ? null : grant.token, now: command.now }
        const answers = await database.force(forced.key, forced.token, forced.now)
        return await this.#check({ name: 'force', forced, looks: command.now ? [grant.key] : [], answers })
      }
      case 'due':
        await database.due([...locks, ...semaphores][command.key] as string)
        return await this.#check({ name: 'due', looks: [], answers: [] })
      case 'rested':
        await database.rested()
        return await this.#check({ name: 'rested', looks: [], answers: [] })
      case 'pin': {
        const [grant] = pick(this.#grants(), [command.grant])
        if (!grant || this.#busy.has(command.guard)) return
        this.#busy.add(command.guard)
        const row = this.#now.grants.find(({ key, token }) => key === grant.key && token === grant.token)
        const isPinned = await database.pin(command.guard, grant)
        if (row) expect(isPinned).toBe(!row.released && row.forced === 'no' && isLive(this.#now, row.session))
        if (isPinned)
          this.#rules.pins.set(command.guard, { key: grant.key, token: row?.token ?? this.#first(grant) })
        this.#count(isPinned ? 'a guard' : 'no guard')
        return
      }
      case 'unpin':
        if (!this.#busy.delete(command.guard)) return
        this.#rules.pins.delete(command.guard)
        return await database.end(command.guard)
      case 'seize':
        if (this.#rules.seized.size > 0 || !this.#now.sessions.has(session)) return
        this.#rules.seized.add(session)
        return await database.seize(guards, session)
      case 'let go':
        if (this.#rules.seized.size === 0) return
        this.#rules.seized.clear()
        return await database.end(guards)
    }
  }

  /** Lets go of everything that is held open, and time pass: then nobody is forgotten; and then nothing is left. */
  async end(): Promise<void> {
    for (let guard = 0; guard < guards; guard++) await this.step({ do: 'unpin', guard })
    await this.step({ do: 'let go' })
    await this.step({ do: 'rested' })
    for (let round = 0; round < 2; round++) {
      for (const session of this.#slots) if (this.#isOpen(session)) await this.#tick(session, round === 0)
      await this.#tick(newId(), true)
    }
    const state = this.#now
    const left = forgotten(state, state.rows.keys(), true).filter(({ session }) => this.#isOpen(session))
    if (left.length > 0) throw new Error(`after two ticks of everybody, ${left[0]?.key} is not granted`)
    const dead = state.grants.filter(
      ({ session, released, forced }) => !isLive(state, session) || released || forced === 'due',
    )
    if (dead.length > 0)
      throw new Error(`after two ticks of everybody, ${dead[0]?.key} is still held by nobody`)
    for (const session of state.sessions.keys()) await this.#database.close(session)
    await this.#database.tick(newId(), [], true)
    await this.#database.rested()
    await this.#database.tick(newId(), [], true)
    const { rows, grants, tickets, sessions } = await this.#database.state()
    expect([...rows.values()].filter(({ mode }) => mode !== 'permits')).toEqual([])
    expect({ grants, tickets, sessions: [...sessions] }).toEqual({ grants: [], tickets: [], sessions: [] })
  }

  async #acquire(session: string, asks: readonly Ask[]): Promise<void> {
    if (this.#rules.seized.has(session)) return
    let rest = asks
    for (let attempt = 0; rest.length > 0; attempt++) {
      if (attempt > 2) throw new Error('the same is told again, and again')
      this.#asked.unshift(...rest.map(ask => ({ session, ask })))
      const before = this.#now
      const answers = await this.#database.acquire(session, rest)
      const looks = isDead(answers) ? [] : rest.map(({ key }) => key)
      expect(isDead(answers)).toBe(!this.#isOpen(session))
      await this.#check({ name: 'acquire', session, asks: rest, looks, answers })
      const again = checkAnswers(before, this.#now, rest, answers)
      rest = rest.filter(({ request }) => again.includes(request))
    }
  }

  async #tick(session: string, overAll: boolean): Promise<void> {
    const waiting = this.#now.tickets.filter(ticket => ticket.session === session)
    const answers = await this.#database.tick(session, waiting, overAll)
    await this.#check({ name: 'tick', session, looks: [], answers })
    for (const { request, key } of waiting) {
      const said = answers.find(each => each.request === request && each.key === key)
      const holds = this.#now.grants.find(each => each.request === request && each.key === key)
      const waits = this.#now.tickets.some(each => each.request === request && each.key === key)
      const so = holds && !holds.released ? 'granted' : waits ? 'queued' : 'again'
      if (said?.outcome !== so && said?.outcome !== 'follows')
        throw new Error(`a tick says ${said?.outcome} of what is ${so}`)
    }
  }

  async #check(call: Call): Promise<void> {
    const before = this.#now
    this.#state = await this.#database.state()
    const old = new Set(before.grants.map(({ token }) => token))
    for (const { key, session, token } of this.#now.grants)
      if (!old.has(token)) this.#granted.unshift({ key, session, token })
    for (const { outcome } of call.answers) this.#count(outcome)
    this.#rules.check(before, this.#now, call)
  }

  #ask({ kind, key, more, permits, mistaken, waits, delay }: Wanted): Ask[] {
    const request = newId()
    const isPermits = kind === 'permits'
    const names = isPermits !== (mistaken && key === 0) ? semaphores : locks
    const name = names[key % names.length] as string
    this.#count(`${kind}${waits ? '' : ', a try'}`)
    if (isPermits) {
      const capacity = (this.#capacities.get(name) ?? 3) + (mistaken ? 1 : 0)
      return [{ key: name, request, waits, mode: 'permits', permits: Math.min(permits, capacity), capacity }]
    }
    if (kind === 'shared') return [{ key: name, request, waits, mode: 'shared' }]
    if (kind === 'exclusive')
      return [{ key: name, request, waits, mode: null, ...(delay && { delay: 60_000 }) }]
    const keys = Array.from({ length: more + 1 }, (_, i) => names[(key + i) % names.length] as string)
    return [...new Set(keys)].map(each => ({ key: each, request, waits, mode: null, wide: true }))
  }

  /** Not given up, and not through: what a process sends again. */
  #isUp({ request }: Ask): boolean {
    const { grants, tickets } = this.#now
    return [...grants.filter(({ released }) => !released), ...tickets].some(each => each.request === request)
  }

  /** Those that stand, then those that have been. */
  #grants(): Granted[] {
    const stand = (grant: Granted) => this.#now.grants.some(({ token }) => token === grant.token)
    return [...this.#granted.filter(stand), ...this.#granted.filter(grant => !stand(grant))]
  }

  #first({ key }: Granted): string {
    return this.#now.rows.get(key)?.token ?? ''
  }

  #isOpen(session: string): boolean {
    return isLive(this.#now, session) && this.#now.sessions.get(session)?.expired === false
  }

  get #now(): State {
    return this.#state as State
  }

  #count(what: string): void {
    this.#seen.set(what, (this.#seen.get(what) ?? 0) + 1)
  }
}

const isDead = (answers: readonly Answer[]) => answers.some(({ outcome }) => outcome === 'dead')
const exclusive = (key: string): Ask => ({ key, request: newId(), waits: true, mode: null })

/** Those at these places, counted from the latest, each once. */
function pick<T>(from: readonly T[], places: readonly number[]): T[] {
  return [...new Set(places)].flatMap(place => from[place] ?? [])
}

const ofOne = (grants: readonly Granted[]) => grants.filter(({ session }) => session === grants[0]?.session)
const unique = (asks: readonly Ask[]) =>
  asks.filter((ask, i) => asks.findIndex(each => each.key === ask.key && each.request === ask.request) === i)
