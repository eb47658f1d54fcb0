import { expect } from 'vitest'
import { type Command, keys, slots } from './commands.ts'
import { channelOf, type DatabaseSide, newId, type Row, type Tables } from './database-side.ts'
import { type Pair, Protocol, type Said, type Want } from './protocol.ts'

interface Asked {
  readonly session: string
  readonly key: string
  readonly request: string
}

interface Granted {
  readonly session: string
  readonly key: string
  readonly token: string
}

/** Runs commands on the database and on the model beside each other, and compares the two after each. */
export class Run {
  /** How often each outcome was seen: a run that never queues proves nothing about lines. */
  readonly seen: Map<string, number>
  readonly #database: DatabaseSide
  readonly #model = new Protocol()
  readonly #slots: string[] = Array.from({ length: slots }, newId)
  readonly #asked: Asked[] = []
  readonly #granted: Granted[] = []
  /** The token of each key's row. */
  #tokens = new Map<string, string>()
  /** And the last of its run. */
  #lasts = new Map<string, bigint>()
  readonly #numbers = new Map<string, number | undefined>()
  #highest = 0n

  constructor(database: DatabaseSide, seen: Map<string, number>) {
    this.#database = database
    this.seen = seen
  }

  async begin(): Promise<void> {
    for (let slot = 0; slot < slots; slot++) await this.step({ do: 'open', slot, same: false })
  }

  async step(command: Command): Promise<void> {
    const [database, model] = [this.#database, this.#model]
    const session = 'slot' in command ? (this.#slots[command.slot] as string) : ''
    const generation = model.sessions.get(session)?.generation ?? 1
    switch (command.do) {
      case 'open': {
        if (!command.same && !model.heartbeat(session)) this.#slots[command.slot] = newId()
        const id = this.#slots[command.slot] as string
        const opened = model.open(id)
        expect(await database.open(id)).toBe(opened)
        return await this.#compare([], [])
      }
      case 'acquire': {
        const wants = command.wants.map(({ key, waits }) => ({
          key: keys[key] as string,
          request: newId(),
          waits,
        }))
        this.#asked.unshift(...wants.map(({ key, request }) => ({ session, key, request })))
        return await this.#acquire(session, generation - Number(command.stale), wants)
      }
      case 'repeat': {
        const theirs = this.#asked.filter(asked => asked.session === session)
        const wants = pick(theirs, command.requests).map(({ key, request }) => ({
          key,
          request,
          waits: command.waits,
        }))
        if (wants.length > 0) await this.#acquire(session, generation, wants)
        return
      }
      case 'release': {
        const grants = pick(this.#grants(), command.grants)
        const [first] = grants
        if (!first) return
        const by = command.by === 'owner' ? first.session : session
        const tokens = grants.map(({ token }) => token)
        if (command.swap) tokens.push(tokens.shift() as string)
        const pairs = grants.map(({ key }, i) => ({ key, token: tokens[i] as string }))
        const asked = pairs.map(pair => this.#placed(pair))
        return await this.#compare(await database.release(by, pairs), model.release(by, asked))
      }
      case 'cancel': {
        const requests = onePerKey(pick(this.#asked, command.requests))
        const [first] = requests
        if (!first) return
        const by = command.by === 'owner' ? first.session : session
        return await this.#compare(await database.cancel(by, requests), model.cancel(by, requests))
      }
      case 'tick': {
        const waiting = command.waiting ? this.#waiting(session) : []
        const { overAll } = command
        const said = model.tick(session, waiting, overAll)
        return await this.#compare(await database.tick(session, waiting, overAll), said)
      }
      case 'heartbeat': {
        const tokens = model.held(session).map(key => BigInt(this.#tokens.get(key) as string))
        expect(await database.heartbeat(session)).toEqual({
          renewed: model.heartbeat(session),
          held: tokens.length,
          tokens: tokens.reduce((xor, token) => xor ^ token, 0n),
        })
        return await this.#compare([], [])
      }
      case 'settle': {
        const held = model.held(session).map(key => ({
          key,
          token: this.#tokens.get(key),
          requests: `{${model.requests(key).join(',')}}`,
        }))
        const rows = await database.settle(session)
        expect(rows.sort((one, other) => (one.key < other.key ? -1 : 1))).toEqual(
          held.sort((one, other) => (one.key < other.key ? -1 : 1)),
        )
        return
      }
      case 'expire':
        await database.expire(session)
        model.expire(session)
        return
      case 'close':
        return await this.#compare(await database.close(session), model.close(session))
      case 'raise': {
        const from = generation - Number(command.stale)
        expect(await database.raise(session, from)).toBe(model.raise(session, from))
        return await this.#compare([], [])
      }
      case 'force': {
        const [grant] = pick(this.#grants(), [command.grant])
        if (!grant) return
        const said = model.force(grant.key, this.#stands(grant), command.now)
        return await this.#compare(await database.force(grant.key, grant.token, command.now), said)
      }
      case 'anew': {
        const [grant] = pick(this.#grants(), [command.grant])
        if (!grant) return
        const { key, session: holder } = grant
        const under = (model.sessions.get(holder)?.generation ?? 1) - Number(command.stale)
        const known = this.#asked.find(asked => asked.session === holder && asked.key === key)
        const requests = Array.from({ length: command.requests }, newId)
        // Each request is asked for once, however often: no call names it twice.
        this.#asked.unshift(...requests.map(request => ({ session: holder, key, request })))
        if (command.repeats && known) requests.unshift(known.request)
        const said = model.releaseAndAcquire(holder, under, this.#placed(grant), requests)
        this.#count('anew')
        return await this.#compare(await database.releaseAndAcquire(holder, under, grant, requests), said)
      }
      case 'turn': {
        const [grant] = pick(this.#grants(), [command.grant])
        if (!grant) return
        model.turn(grant.session, this.#placed(grant))
        await database.turn(grant.session, grant.key, grant.token)
        return await this.#compare([], [])
      }
      case 'due':
        await database.due(keys[command.key] as string)
        model.due(keys[command.key] as string)
        return
      case 'pin': {
        const [grant] = pick(this.#grants(), [command.grant])
        if (!grant || model.guards.has(command.guard)) return
        const pinned = model.pin(command.guard, grant.key, this.#stands(grant))
        this.#count(pinned ? 'a guard' : 'no guard')
        expect(await database.pin(command.guard, grant.key, grant.token)).toBe(pinned)
        return
      }
      case 'unpin':
        if (!model.guards.has(command.guard)) return
        model.unpin(command.guard)
        return await database.unpin(command.guard, command.commit)
    }
  }

  /** Ends all guards and sessions: then nothing is left. */
  async end(): Promise<void> {
    for (const guard of [...this.#model.guards.keys()]) await this.step({ do: 'unpin', guard, commit: true })
    for (const id of [...this.#model.sessions.keys()]) {
      await this.#compare(await this.#database.close(id), this.#model.close(id))
    }
    // What was pinned when its session ended waits for a tick.
    const nobody = newId()
    await this.#compare(await this.#database.tick(nobody, [], true), this.#model.tick(nobody, [], true))
    expect(await this.#database.tables()).toEqual({ sessions: [], grants: [], tickets: [] })
  }

  async #acquire(session: string, generation: number, wants: readonly Want[]): Promise<void> {
    const rows = await this.#database.acquire(session, generation, wants)
    await this.#compare(rows, this.#model.acquire(session, generation, wants))
  }

  /** Those that stand, then those that have been. */
  #grants(): Granted[] {
    const stands = (grant: Granted) => this.#stands(grant)
    return [...this.#granted.filter(stands), ...this.#granted.filter(grant => !stands(grant))]
  }

  #placed({ key, token }: { key: string; token: string }): Pair {
    const first = this.#tokens.get(key)
    if (first === undefined || BigInt(token) > (this.#lasts.get(key) ?? 0n)) return { key, place: undefined }
    const place = Number(BigInt(token) - BigInt(first))
    return { key, place: place < 0 ? undefined : place }
  }

  #stands(grant: Granted): boolean {
    return this.#placed(grant).place !== undefined
  }

  #waiting(session: string): Asked[] {
    const waiting = [...this.#model.lines].flatMap(([key, line]) => line.map(ticket => ({ ...ticket, key })))
    return waiting.filter(ticket => ticket.session === session)
  }

  async #compare(rows: readonly Row[], said: readonly Said[]): Promise<void> {
    await this.#compareTables()
    const tokenOf = ({ key, place = 0 }: Said) => {
      const first = this.#tokens.get(key ?? '')
      return first === undefined ? null : String(BigInt(first) + BigInt(place))
    }
    const bears = (outcome: string) => outcome === 'granted' || outcome === 'follows'
    const expected = said.map(each => ({
      outcome: each.outcome,
      request: each.request ?? null,
      channel: each.told === undefined ? null : channelOf(each.told),
      ...(bears(each.outcome) && { token: tokenOf(each) }),
    }))
    const actual = rows.map(({ outcome, request, channel, token }) => ({
      outcome,
      request,
      channel,
      ...(bears(outcome) && { token }),
    }))
    expect(actual.sort(byText)).toEqual(expected.sort(byText))
    const named = (each: { outcome: string; key?: string | null }) =>
      each.key ? [`${each.outcome} ${each.key}`] : []
    // Some answers do without the key; none names another.
    const may = new Set(said.flatMap(named))
    expect(rows.flatMap(named).filter(each => !may.has(each))).toEqual([])
    for (const { outcome } of said) this.#count(outcome)
  }

  async #compareTables(): Promise<void> {
    const { sessions, grants, tickets } = await this.#database.tables()
    const model = this.#model
    expect(sessions).toEqual(
      [...model.sessions]
        .map(([id, { generation, died }]) => ({ id, generation, died }))
        .sort((one, other) => (one.id < other.id ? -1 : 1)),
    )
    expect(
      grants.map(({ key, session, request, released }) => ({ key, session, request, released })),
    ).toEqual(
      [...model.grants]
        .map(([key, { session, request, released }]) => ({ key, session, request, released }))
        .sort((one, other) => (one.key < other.key ? -1 : 1)),
    )
    expect(tickets.map(({ key, session, request }) => ({ key, session, request }))).toEqual(
      [...model.lines]
        .flatMap(([key, line]) => line.map(({ session, request }) => ({ key, session, request })))
        .sort((one, other) => (one.key < other.key ? -1 : one.key > other.key ? 1 : 0)),
    )
    // A ticket exists: its key has a row that is contended.
    const contended = new Set(grants.filter(grant => grant.contended).map(({ key }) => key))
    expect(tickets.filter(({ key }) => !contended.has(key))).toEqual([])
    this.#learn(grants, tickets)
  }

  /** A token changes when the key is granted, and only then; a new one is above all that there have been. */
  #learn(grants: Tables['grants'], tickets: Tables['tickets']): void {
    this.#lasts = new Map(grants.map(({ key, token, token_to }) => [key, BigInt(token_to ?? token)]))
    const highest = this.#highest
    const tokens = new Map<string, string>()
    for (const { key, session, token } of grants) {
      tokens.set(key, token)
      const number = this.#model.grants.get(key)?.number
      const isSame = this.#numbers.get(key) === number
      this.#numbers.set(key, number)
      expect(this.#tokens.get(key) === token).toBe(isSame)
      if (isSame) continue
      expect(BigInt(token)).toBeGreaterThan(highest)
      const last = this.#lasts.get(key) as bigint
      if (last > this.#highest) this.#highest = last
      const followers = tickets.filter(
        ticket => ticket.key === key && BigInt(ticket.token ?? 0) > BigInt(token),
      )
      for (const follower of [{ token }, ...followers]) {
        this.#granted.unshift({ session: session as string, key, token: follower.token as string })
      }
    }
    this.#tokens = tokens
  }

  #count(what: string): void {
    this.seen.set(what, (this.seen.get(what) ?? 0) + 1)
  }
}

/** Those at these places, counted from the latest, each once. */
function pick<T>(from: readonly T[], places: readonly number[]): T[] {
  return [...new Set(places)].flatMap(place => from[place] ?? [])
}

function onePerKey(asked: readonly Asked[]): Asked[] {
  return asked.filter(({ key }, i) => asked.findIndex(other => other.key === key) === i)
}

function byText(one: object, other: object): number {
  return JSON.stringify(one) < JSON.stringify(other) ? -1 : 1
}
