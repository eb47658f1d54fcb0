import { setTimeout as pause } from 'node:timers/promises'
import { monotonic } from './clock.mjs'
import { startProcess } from './process.mjs'
import { startProxy } from './proxy.mjs'
import { Refusal } from './refusal.mjs'

/** Milliseconds that it may take until all candidates are in line. */
const patience = 60_000
/** Processes that start at once: while all of fifty do, nobody's lease is renewed in time. */
const atOnce = 2

/** Those that start. @type {Set<Promise<unknown>>} */
const starting = new Set()

/**
 * Runs it when it is its turn to start.
 * @template Started
 * @param {() => Promise<Started>} start
 */
async function inTurn(start) {
  while (starting.size >= atOnce) await Promise.race(starting)
  const begun = start()
  const ended = begun.then(
    () => {},
    () => {},
  )
  starting.add(ended)
  void ended.then(() => starting.delete(ended))
  return await begun
}

/**
 * What a leader said: that it is one, or that it wrote; `at` is when this process heard of it, by `monotonic()`.
 * @typedef {object} Word
 * @property {Seat} seat who
 * @property {'elected' | 'wrote'} what
 * @property {number} at
 * @property {number} began when the write did; of an election, when its process knew of it
 * @property {string} [token]
 */

/** @typedef {Omit<import('./candidate.mjs').Context, 'url' | 'election'> & { size: number, cuts: boolean }} Terms */

/**
 * A candidate: its process, and its way to the server.
 * @typedef {object} Seat
 * @property {import('./process.mjs').Process} child
 * @property {import('../../test/support/proxy.ts').PostgresProxy | undefined} proxy where its connections can be cut
 */

/** One election, and the processes that stand for it. What is said of its leader is said to this process, by one clock. */
export class Electorate {
  /** @type {Set<Seat>} */
  seats = new Set()
  /** Who said so last. @type {Word | undefined} */
  latest
  /** Connections through the proxies of those who are gone. */
  #connections = 0
  #isOver = false
  #module
  #record
  #url
  #terms
  /** @type {Set<(word: Word) => void>} */
  #listeners = new Set()

  /**
   * @param {string} name
   * @param {string} module in `candidates/`
   * @param {{ url: string, record: import('./candidate.mjs').Record }} server
   * @param {Terms} terms `cuts`: each candidate gets a proxy
   */
  constructor(name, module, { url, record }, terms) {
    this.name = name
    this.#module = module
    this.#url = url
    this.#record = record
    this.#terms = terms
  }

  /** Who leads, by what was heard last. */
  get leader() {
    if (!this.latest) throw new Refusal(`${this.name}: nobody has led yet`)
    return this.latest.seat
  }

  /** Connections so far, where there are proxies. */
  get connections() {
    const open = [...this.seats].map(({ proxy }) => proxy?.counters.connections ?? 0)
    return open.reduce((sum, count) => sum + count, this.#connections)
  }

  /** Starts whoever is missing, and waits until somebody leads and the others are in line. */
  async settle() {
    const missing = this.#terms.size - this.seats.size
    await Promise.all(Array.from({ length: missing }, () => inTurn(() => this.#seat())))
    const deadline = monotonic() + patience
    while (!this.#isOver && !((await this.#record.standing(this.name)) === this.#terms.size && this.#isLed)) {
      if (monotonic() > deadline) throw new Refusal(`${this.name}: not all of its candidates are in line`)
      await pause(50)
    }
  }

  get #isLed() {
    return this.latest !== undefined && this.seats.has(this.latest.seat)
  }

  /**
   * The first word like this from now on; undefined: there was none in time.
   * @param {(word: Word) => boolean} isIt
   * @param {number} within milliseconds
   * @returns {Promise<Word | undefined>}
   */
  next(isIt, within) {
    return new Promise(resolve => {
      const end = (/** @type {Word | undefined} */ word) => {
        clearTimeout(timer)
        this.#listeners.delete(listener)
        resolve(word)
      }
      const listener = (/** @type {Word} */ word) => void (isIt(word) && end(word))
      const timer = setTimeout(end, within)
      this.#listeners.add(listener)
    })
  }

  /** Hears all that is said. @param {(word: Word) => void} listener @returns what ends it */
  listen(listener) {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async end() {
    this.#isOver = true
    await Promise.all(
      [...this.seats].map(async ({ child, proxy }) => {
        child.kill('SIGKILL')
        await child.exited
        await proxy?.close()
      }),
    )
  }

  async #seat() {
    if (this.#isOver) return
    const program = new URL(`../candidates/${this.#module}.mjs`, import.meta.url)
    const child = await startProcess('candidate.mjs', [program.href], this.#module)
    // Another election has failed meanwhile.
    if (this.#isOver) return child.kill('SIGKILL')
    const proxy = this.#terms.cuts ? await startProxy(this.#url) : undefined
    const seat = { child, proxy }
    this.seats.add(seat)
    child.listen(({ what, began, token, at: since }) => {
      const word = { seat, what, at: monotonic(), began: began ?? since, token }
      // What was begun before a stall, and is told after it, is no news.
      if (!this.latest || word.began >= this.latest.began) this.latest = word
      for (const listener of [...this.#listeners]) listener(word)
    })
    void child.exited.then(async () => {
      this.seats.delete(seat)
      this.#connections += proxy?.counters.connections ?? 0
      await proxy?.close()
    })
    const { ttl, takeover, every } = this.#terms
    const url = proxy?.url(this.#url) ?? this.#url
    await child.call('stand', { url, election: this.name, ttl, takeover, every })
  }
}
