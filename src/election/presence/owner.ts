/**
 * Shows that this process is there, by a connection of its own:
 *
 *   none --connected, answered promptly, show_presence sent--> showing --answered--> shown --a ping is answered--> shown
 *    ^                                                           |                     |
 *    |                                                           +--late, or broken----+
 *    |                                                           v
 *    +------- the database has answered -------------------- withdrawing: tried until it has
 *
 * From the sending of `show_presence` to an answered withdrawal somebody may bury the session a grace after its connection
 * is gone. So long trust ends a grace (less the margin) after the sending of what was last answered on that connection: then
 * the lock was there still, and whoever counts has begun later. A withdrawal that is answered leaves the ttl's trust alone.
 */
import { Backoff } from '../../database/backoff.ts'
import type { Connection } from '../../database/connection.ts'
import { BrokenConnection, messageOf } from '../../database/failure.ts'
import { wireOf } from '../../database/lane.ts'
import { type Moment, now } from '../../session/clock.ts'
import { marginOf, type Session } from '../../session/session.ts'
import type { Trust, TrustBound } from '../../session/trust.ts'
import type { PresenceHost } from './host.ts'

/** Milliseconds. */
const connectTimeout = 5_000
/** Between two looks whether there is a straight way by now. */
const wayPause = 100
const pooledPause = 5_000
/** Answers in time, one after another, before presence is shown: a server that is slow just now would have it withdrawn again. */
const promptAnswers = 2

export class Owner implements TrustBound {
  readonly #session: Session
  readonly #grace: number
  readonly #host: PresenceHost
  readonly #connected: (connection: Connection) => void
  readonly #ending = new AbortController()
  readonly #refreshed: (() => void)[] = []
  /** Of the last thing said of its presence. */
  #generation = 0
  /** When what was last answered on the connection was sent; undefined: nobody counts. */
  #since: Moment | undefined
  /** The connection that holds the lock. */
  #shownOn: Connection | undefined
  /** How often it was shown. */
  #shown = 0
  #withdrawing: Promise<void> | undefined
  #connection: Connection | undefined
  #hurry = () => {}

  /** @param connected is given each new connection, to ask after others by */
  constructor(
    session: Session,
    grace: number,
    host: PresenceHost,
    connected: (connection: Connection) => void,
  ) {
    this.#session = session
    this.#grace = grace
    this.#host = host
    this.#connected = connected
    void this.#run()
  }

  get trust(): Trust | undefined {
    return this.#since && { since: this.#since, span: this.#grace - marginOf(this.#grace) }
  }

  get isFailing(): boolean {
    return this.#withdrawing !== undefined
  }

  /** A ping at once. */
  refresh(): Promise<void> {
    if (this.#since === undefined || !this.#connection?.isOpen || this.#isStopped) return Promise.resolve()
    return new Promise(resolve => {
      this.#refreshed.push(resolve)
      this.#hurry()
    })
  }

  stop(): void {
    this.#ending.abort()
    this.#since = undefined
    this.#connection?.end().catch(() => {})
    this.#hurry()
    this.#tellRefreshed()
  }

  get #isStopped(): boolean {
    return this.#ending.signal.aborted
  }

  async #run(): Promise<void> {
    const backoff = new Backoff(50, 1_000)
    while (!this.#isStopped) {
      const shown = this.#shown
      const isStraight = await this.#tryOnce().catch(() => true)
      if (this.#shown > shown) backoff.reset()
      await this.#pause(isStraight ? backoff.next() : pooledPause)
      // What was shown on the last one is taken back before anything is shown on another.
      await this.#withdrawing
    }
  }

  /** False: there is no straight way to the server; until there is, the ttl counts. @throws what is tried again */
  async #tryOnce(): Promise<boolean> {
    const { waking, connect, warn } = this.#host
    while (waking() === 'connecting' && !this.#isStopped) await this.#pause(wayPause)
    if (this.#isStopped) return true
    const connection =
      waking() === 'listening' ? await connect(connectTimeout, this.#ending.signal) : undefined
    // The way may have been lost meanwhile.
    const isStraight = connection ? await this.#stay(connection) : waking() === 'connecting'
    if (!isStraight && !this.#isStopped) warn('there is no connection straight to the server (a pooler?)')
    return isStraight
  }

  /** As long as the connection is good. False: it is not straight. */
  async #stay(connection: Connection): Promise<boolean> {
    const { onClose } = connection
    connection.onClose = cause => {
      onClose(cause)
      this.#withdraw()
      this.#hurry()
    }
    this.#connection = connection
    this.#connected(connection)
    try {
      let prompt = 0
      while (connection.isOpen && !this.#isStopped) {
        const [sent, generation] = [now(), this.#generation]
        const { answer: isOurs, isPrompt } = await this.#promptly(connection.isOurs(this.#grace))
        if (!isOurs) return false
        if (this.#shownOn === connection) this.#extend(sent)
        this.#tellRefreshed()
        if (this.#generation !== generation) return true
        prompt = isPrompt ? prompt + 1 : 0
        if (prompt >= promptAnswers && this.#shownOn !== connection && !(await this.#show(connection)))
          return true
        await this.#pause(this.#grace / 12)
      }
      return true
    } finally {
      // A presence is of one connection.
      this.#withdraw()
      this.#tellRefreshed()
      await connection.end()
    }
  }

  /** False: it is not shown on this connection, and is not to be. @throws BrokenConnection, or the server's error */
  async #show(connection: Connection): Promise<boolean> {
    const { calls, knowledge, warn } = this.#host
    this.#generation += 1
    const shown = { session: this.#session.id, generation: this.#generation, grace: this.#grace }
    const sent = now()
    // It may count from now on, whether we hear of it or not.
    this.#since = sent
    this.#session.boundMoved()
    try {
      const call = calls.show(wireOf(connection), this.#grace, shown, knowledge.witness())
      const { answer } = await this.#promptly(call)
      if (!answer || this.#generation !== shown.generation || this.#isStopped) return false
      this.#shownOn = connection
      this.#shown += 1
      return true
    } catch (error) {
      // The server's own word that nothing has come of it.
      if (!(error instanceof BrokenConnection) && this.#generation === shown.generation) {
        this.#since = undefined
        this.#session.boundMoved()
        warn(messageOf(error))
      }
      throw error
    }
  }

  #extend(sent: Moment): void {
    if (this.#since === undefined) return
    this.#since = sent
    this.#session.boundMoved()
  }

  /**
   * What is not answered in a tenth of the grace is late, and presence withdrawn while there is still time to hear that it
   * is. A timer that fires with the answer at hand, after a stall of ours, lets that be read first.
   */
  async #promptly(call: Promise<boolean>): Promise<{ answer: boolean; isPrompt: boolean }> {
    let isAnswered = false
    let isPrompt = true
    const timer = setTimeout(() => {
      setImmediate(() => {
        if (isAnswered) return
        isPrompt = false
        this.#withdraw()
      }).unref()
    }, this.#grace / 10)
    timer.unref()
    try {
      return { answer: await call, isPrompt }
    } finally {
      isAnswered = true
      clearTimeout(timer)
    }
  }

  #withdraw(): void {
    if (this.#since === undefined || this.#isStopped) return
    this.#withdrawing ??= this.#withdrawUntilAnswered().finally(() => {
      this.#withdrawing = undefined
    })
  }

  async #withdrawUntilAnswered(): Promise<void> {
    this.#generation += 1
    const generation = this.#generation
    const backoff = new Backoff(25, 500)
    while (!this.#isStopped) {
      try {
        if (await this.#host.withdraw(this.#session.id, generation)) break
        // It is over: a heartbeat says so, and ends it here.
        await this.#session.beat()
      } catch {
        // Nobody can say: what is trusted stays as short as it is.
      }
      await backoff.wait()
    }
    this.#shownOn = undefined
    this.#since = undefined
    this.#session.boundMoved()
  }

  #tellRefreshed(): void {
    for (const resolve of this.#refreshed.splice(0)) resolve()
  }

  #pause(delay: number): Promise<void> {
    if (this.#isStopped) return Promise.resolve()
    return new Promise(resolve => {
      const end = () => {
        clearTimeout(timer)
        this.#hurry = () => {}
        resolve()
      }
      const timer = setTimeout(end, delay)
      timer.unref()
      this.#hurry = end
    })
  }
}
