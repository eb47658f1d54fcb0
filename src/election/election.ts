/**
 * One leader among replicas. An election named N is the exclusive lock of the key N: campaigning is waiting in its line, a term
 * is a grant of it, resigning is giving it back. So all that holds for a lock holds for a term: guards, fences, and whoever takes
 * it by hand. Who it is rides in the request's metadata.
 *
 *   idle --campaign--> candidate --elected--> leader --resigned | lost--> idle
 *                          |  given up; the place in line lost: idle
 *
 * The row in `locks` is authoritative for everybody else, the lock's own clock for us: `isLeader` is false by the time that the
 * row can name another. An election object is one candidate, and leads at most once at a time. With takeover 'fast' it has a
 * session of its own (`presence/`), which ends when it neither campaigns nor leads.
 */
import { randomUUID } from 'node:crypto'
import { whenAborted } from '../abort.ts'
import { AlreadyCampaigningError, NotHeldError } from '../errors.ts'
import { whileAlive } from '../keep-alive.ts'
import type { Lock, ReleaseOutcome } from '../lock/lock.ts'
import { checkOptions, fullKey } from '../options.ts'
import { marginOf } from '../session/session.ts'
import { type AcquireOptions, checkSignal } from '../settings.ts'
import { exitUnlessOver } from './exit.ts'
import type { ElectionHost } from './host.ts'
import { type Leader, leaderOf } from './leader.ts'
import { isInside, type LeaderCallback, Leading } from './leading.ts'
import { Observer } from './observer.ts'
import {
  type CampaignOptions,
  checkLead,
  type ElectionOptions,
  type ElectionSettings,
  type LeadOptions,
  type ObserveOptions,
  readElection,
} from './options.ts'
import { Presence } from './presence/presence.ts'
import { Term } from './term.ts'

export class Election {
  readonly name: string
  /** Who this candidate is: chance, for each object. */
  readonly identity: string = randomUUID()
  readonly #key: string
  readonly #host: ElectionHost
  readonly #settings: ElectionSettings
  readonly #request: AcquireOptions
  /** Under takeover 'fast': its own session. */
  readonly #presence: Presence | undefined
  #term: Term | undefined
  #candidacy: 'campaign' | 'lead' | undefined

  /** @internal @throws BadKeyError, BadOptionError */
  constructor(name: string, options: ElectionOptions, host: ElectionHost) {
    this.#key = fullKey(host.settings.namespace, name)
    this.#settings = readElection(options, host.settings.ttl)
    const { ttl, value, grace } = this.#settings
    this.name = name
    this.#host = host
    this.#presence = grace === undefined ? undefined : new Presence(this.#key, ttl, grace, host.presence)
    // Any delay, none as well, keeps it out of runs: who leads is to be in the row from the first moment.
    this.#request = { ttl, metadata: { identity: this.identity, value }, lockDelay: 0 }
  }

  /** Whether this process may act as the leader, by the clock at this moment. False once its term is to end. */
  get isLeader(): boolean {
    return this.#term?.isCurrent ?? false
  }

  /**
   * Waits in line until it is elected. It leads from then on until {@link resign}, or until the term is lost, which its signal
   * tells.
   *
   * @throws AlreadyCampaigningError, and what `Fencepost.acquire` throws: LostError where the session died while it waited
   */
  async campaign(options: CampaignOptions = {}): Promise<Term> {
    const { signal, timeout } = checkOptions(options)
    this.#enter('campaign')
    try {
      const request = { ...this.#request, signal, timeout }
      return await this.#begin(await this.#host.acquire(this.name, request, this.#presence))
    } finally {
      this.#candidacy = undefined
      this.#rest()
    }
  }

  /**
   * Campaigns, runs the callback while it leads, gives the leadership back when that has ended, and campaigns again, at the
   * end of the line: until `signal` is aborted or the client is closed. Told to stop, by these, by {@link resign} or by a loss,
   * it aborts the term's signal and awaits the callback first. A callback that throws pauses its campaign, longer each time.
   * The database may be away meanwhile.
   *
   * @throws AlreadyCampaigningError, BadOptionError; NotMigratedError, NotPermittedError and others that no later try would do
   * better at; UnreachableError where the database has never answered this client
   */
  async lead(callback: LeaderCallback, options: LeadOptions = {}): Promise<void> {
    checkLead(callback, checkOptions(options))
    this.#enter('lead')
    const { closing, withLock, wasReached } = this.#host
    try {
      const host = {
        key: this.#key,
        closing,
        hold: (signal: AbortSignal, section: (lock: Lock) => Promise<void>) =>
          withLock(this.name, { ...this.#request, signal }, section, this.#presence),
        begin: (lock: Lock) => this.#begin(lock),
        wasReached,
      }
      await whileAlive(new Leading(host, callback, options).run())
    } finally {
      this.#candidacy = undefined
      this.#rest()
    }
  }

  /**
   * Gives the leadership up: {@link isLeader} is false from this call on, and the term's signal is aborted. Under `lead` the
   * callback is awaited before it is given back, and it campaigns again then; called by the callback itself, it does not wait.
   * Never throws.
   *
   * @returns `'already'` where it does not lead
   */
  async resign(): Promise<ReleaseOutcome> {
    const term = this.#term
    if (!term) return 'already'
    term.stop(new NotHeldError(`the leadership of ${JSON.stringify(this.#key)} is resigned`, this.#key))
    if (this.#candidacy !== 'lead') {
      const outcome = await term.finish()
      this.#rest()
      return outcome
    }
    if (term.isFinished) return 'already'
    return isInside(term) ? 'released' : await term.over
  }

  /** Who leads, by the database's record at this moment; null: nobody. @throws UnreachableError, NotMigratedError, ClosedError */
  async leader(): Promise<Leader | null> {
    const row = await this.#host.leader(this.#key)
    return row && row.expiresIn > 0 ? leaderOf(row) : null
  }

  /**
   * Who leads, now and from now on; null: nobody. Tokens rise, and nothing is missed that lasted longer than the client's
   * `poll`, while the database answers within half of that. It goes on while the database is away, and ends with `signal`, with
   * the client, or when it is left.
   *
   * @throws from `next`: NotMigratedError, NotPermittedError; UnreachableError where the database has never answered this client
   */
  observe(options: ObserveOptions = {}): AsyncIterableIterator<Leader | null> {
    const { signal } = checkOptions(options)
    const { closing, settings, leader, wasReached } = this.#host
    checkSignal(signal)
    return new Observer({
      poll: settings.poll,
      signals: signal ? [signal, closing] : [closing],
      look: () => leader(this.#key),
      wasReached,
    })
  }

  #enter(candidacy: 'campaign' | 'lead'): void {
    if (this.#candidacy !== undefined || this.#term?.isOpen)
      throw new AlreadyCampaigningError(
        `this election of ${JSON.stringify(this.#key)} campaigns or leads already: one object is one candidate`,
      )
    // Of a term that was lost: whoever campaigns again has stopped.
    void this.#term?.finish()
    this.#term = undefined
    this.#candidacy = candidacy
    this.#presence?.begin()
  }

  /** Whoever neither campaigns nor leads shows no presence. */
  #rest(): void {
    if (this.#candidacy === undefined && !this.#term?.isOpen) this.#presence?.end()
  }

  /** It has waited: what was granted may be over by now. */
  async #begin(lock: Lock): Promise<Term> {
    const { reserve, onLost, ttl, grace } = this.#settings
    try {
      if (lock.state === 'suspended') await lock.renew()
      const term = new Term(lock, reserve)
      this.#term = term
      if (onLost === 'exit')
        whenAborted(term.signal, () =>
          exitUnlessOver(lock, marginOf(grace ?? ttl) / 2, () => term.isFinished),
        )
      return term
    } catch (error) {
      await lock.release()
      throw error
    }
  }
}
