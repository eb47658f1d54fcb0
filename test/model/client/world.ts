import pg from 'pg'
import { expect } from 'vitest'
import { Fencepost, type Lock } from '../../../src/index.ts'
import type { TestDatabase } from '../../support/database.ts'
import type { clientOptions } from '../../support/twist.ts'
import { until } from '../../support/until.ts'
import { type Act, clients, keys, type Step } from './acts.ts'
import { Caller } from './caller.ts'

/** A key by the database's account: labels of who holds it and of who waits, in order. */
interface Line {
  readonly holder: string | undefined
  readonly token: string | undefined
  /** The last token of its run. */
  readonly last: string | undefined
  readonly waiting: readonly string[]
}

/**
 * Clients, their callers, and what may be: who is first in a line holds its key and nobody else does; who was in line
 * before a step stays before whoever came in it; who is refused was aborted, timed out or a try.
 */
export class World {
  /** How often each thing happened. */
  readonly seen: Map<string, number>
  readonly #db: TestDatabase
  readonly #clients: Fencepost[]
  readonly #sql: string
  /** Of each key, whoever holds it or waits for it, in order. */
  readonly #lines = new Map<string, Caller[]>(keys.map(key => [key, []]))
  readonly #callers: Caller[] = []
  readonly #tokens = new Map<string, bigint>()
  readonly #wrong: string[] = []

  private constructor(db: TestDatabase, made: Fencepost[], seen: Map<string, number>) {
    this.#db = db
    this.#clients = made
    this.#sql = pg.escapeIdentifier(db.schema)
    this.seen = seen
  }

  static async begin(
    db: TestDatabase,
    options: ReturnType<typeof clientOptions>,
    seen: Map<string, number>,
  ): Promise<World> {
    const made = Array.from({ length: clients }, () => new Fencepost(options))
    // Until its first answer a client takes an outage for a wrong address.
    await Promise.all(made.map((client, i) => client.withLock(`warm ${i}`, () => {})))
    return new World(db, made, seen)
  }

  async step(step: Step): Promise<void> {
    const before = new Map([...this.#lines].map(([key, line]) => [key, [...line]]))
    const waiting = this.#callers.filter(caller => caller.isWaiting)
    const holding = this.#callers.filter(caller => caller.isHolding)
    const fresh: Caller[] = []
    for (const act of step) {
      this.#count(act.do)
      if (act.do === 'acquire' || act.do === 'try') fresh.push(this.#ask(act))
      else if (act.do === 'terminate') void this.#terminate(act.lane)
      else if (act.do === 'abort') waiting[act.n % waiting.length]?.abort()
      else this.#release(holding[act.n % holding.length])
    }
    await until(() => this.#callers.every(caller => caller.isDecided || !isShort(caller)), {
      within: 10_000,
      what: `all that do not wait are decided, after ${JSON.stringify(step)}`,
    })
    await until(() => this.#isQuiet(), { within: 10_000, what: `quiet after ${JSON.stringify(step)}` })
    await this.#check(before, fresh)
  }

  async end(): Promise<void> {
    for (const caller of this.#callers) {
      if (caller.isWaiting) caller.abort()
      void caller.lock?.release()
    }
    await until(() => this.#callers.every(caller => caller.isDecided), { what: 'all are decided' })
    const releases = this.#callers.map(caller => caller.lock?.release())
    await Promise.all(releases)
    expect(this.#callers.map(caller => caller.listeners).filter(count => count > 0)).toEqual([])
    await until(async () => (await this.#db.query(`select from ${this.#sql}.locks`)).length === 0)
    expect(await this.#db.query(`select from ${this.#sql}.waiters`)).toEqual([])
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map(client => client.close()))
  }

  #ask(act: Act & { do: 'acquire' | 'try' }): Caller {
    const { length } = this.#callers
    const timeout = act.do === 'acquire' ? act.timeout : undefined
    const caller = new Caller(
      this.#clients[act.client] as Fencepost,
      keys[act.key] as string,
      `caller ${length}`,
      { waits: act.do === 'acquire', ...(timeout !== undefined && { timeout }) },
      (granted, lock) => this.#granted(granted, lock),
    )
    this.#callers.push(caller)
    return caller
  }

  /** At the moment of a grant nobody else may believe to hold, and its token is above all before it. */
  #granted(caller: Caller, lock: Lock): void {
    const others = this.#callers.filter(
      other => other !== caller && other.key === caller.key && other.isHolding,
    )
    for (const other of others) this.#wrong.push(`${caller.label} was granted beside ${other.label}`)
    const last = this.#tokens.get(caller.key)
    if (last !== undefined && lock.token <= last)
      this.#wrong.push(`${caller.label}: ${lock.token} after ${last}`)
    this.#tokens.set(caller.key, lock.token)
  }

  #release(caller: Caller | undefined): void {
    if (!caller?.lock) return
    if (
      caller.lock.state !== 'held' &&
      caller.lock.state !== 'released' &&
      caller.lock.state !== 'degraded'
    ) {
      this.#wrong.push(`${caller.label} is ${caller.lock.state}`)
    }
    void caller.lock.release()
  }

  async #terminate(lane: string): Promise<void> {
    await this.#db.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = $1`,
      [`fencepost ${lane}`],
    )
  }

  /** Who holds and who waits is the same to the callers and to the database. */
  async #isQuiet(): Promise<boolean> {
    const open = this.#callers.filter(caller => !caller.isDecided || caller.isHolding)
    const inDatabase = await this.#linesInDatabase()
    return keys.every(key => {
      const theirs = open.filter(caller => caller.key === key)
      const { holder, waiting } = inDatabase.get(key) as Line
      if (theirs.find(caller => caller.isHolding)?.label !== holder) return false
      if (theirs.length > 0 && holder === undefined) return false
      const labels = theirs.filter(caller => caller.isWaiting).map(caller => caller.label)
      return labels.sort().join() === [...waiting].sort().join()
    })
  }

  async #check(before: ReadonlyMap<string, readonly Caller[]>, fresh: readonly Caller[]): Promise<void> {
    expect(this.#wrong).toEqual([])
    const inDatabase = await this.#linesInDatabase()
    for (const key of keys) {
      const { holder, token, last, waiting } = inDatabase.get(key) as Line
      const order = holder === undefined ? [] : [holder, ...waiting]
      const line = order.map(label => this.#callers.find(caller => caller.label === label) as Caller)
      const first = line[0]?.lock
      if (holder !== undefined) {
        expect(first?.token).toBeGreaterThanOrEqual(BigInt(token ?? 0))
        expect(first?.token).toBeLessThanOrEqual(BigInt(last ?? 0))
      }
      // Who was there before, and is there still, comes before whoever came in this step, in the same order.
      const old = (before.get(key) ?? []).filter(caller => line.includes(caller))
      expect(line.slice(0, old.length).map(caller => caller.label)).toEqual(old.map(caller => caller.label))
      this.#lines.set(key, line)
      if (line.length > 1) this.#count('somebody waits')
      this.#checkRefused(key, before.get(key) ?? [], fresh)
    }
  }

  #checkRefused(key: string, before: readonly Caller[], fresh: readonly Caller[]): void {
    const rivals = fresh.filter(caller => caller.key === key)
    for (const caller of [...before, ...rivals]) {
      const { refused } = caller
      if (refused === undefined) continue
      this.#count(`refused: ${refused}`)
      const why = { aborted: caller.isAborted, timed_out: caller.timeout !== undefined }[refused ?? '']
      if (refused === null) expect(caller.waits).toBe(false)
      else
        expect({ [`${caller.label} is refused: ${refused}`]: why }).toEqual({
          [`${caller.label} is refused: ${refused}`]: true,
        })
      // A free key that nobody else wanted is granted.
      if (refused === null) expect(before.length + rivals.length).toBeGreaterThan(1)
    }
    const overtaken = before.slice(1).some(caller => caller.isWaiting)
    for (const caller of rivals) if (caller.lock && overtaken) this.#wrong.push(`${caller.label} overtook`)
    expect(this.#wrong).toEqual([])
  }

  async #linesInDatabase(): Promise<Map<string, Line>> {
    const rows = await this.#db.query<{
      key: string
      label: string
      token: string | null
      last: string | null
    }>(
      `select key, label, token, coalesce(token_to, token) as last, 0 as place from ${this.#sql}.locks
        where session is not null and not released
        union all select key, label, null, null, place from ${this.#sql}.pending order by key, place`,
    )
    return new Map(
      keys.map(key => {
        const theirs = rows.filter(row => row.key === key)
        const held = theirs.find(row => row.token !== null)
        const waiting = theirs.filter(row => row.token === null).map(row => row.label)
        return [
          key,
          { holder: held?.label, token: held?.token ?? undefined, last: held?.last ?? undefined, waiting },
        ]
      }),
    )
  }

  #count(what: string): void {
    this.seen.set(what, (this.seen.get(what) ?? 0) + 1)
  }
}

/** Whether it is decided soon without anybody's help. */
function isShort(caller: Caller): boolean {
  return !caller.waits || caller.timeout !== undefined || caller.isAborted
}
