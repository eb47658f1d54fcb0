/**
 * Takeover 'fast': the session of one candidate, which shows that it is there, and asks after the leader while it waits.
 * Either by a connection of its own, apart from all others of the client. docs/protocol.md says why that may be trusted.
 */
import { marginOf, type Session } from '../../session/session.ts'
import type { Apart } from '../../session/use.ts'
import type { PresenceHost } from './host.ts'
import { Owner } from './owner.ts'
import { Prober } from './prober.ts'

export class Presence implements Apart {
  readonly ttl: number
  readonly margin: number
  readonly #key: string
  readonly #grace: number
  readonly #host: PresenceHost
  #session: Session | undefined
  #isWanted = false

  /** @param key the whole one @param ttl milliseconds @param grace milliseconds, at most the ttl */
  constructor(key: string, ttl: number, grace: number, host: PresenceHost) {
    this.ttl = ttl
    this.margin = Math.min(marginOf(ttl), marginOf(grace))
    this.#key = key
    this.#grace = grace
    this.#host = host
  }

  /** Somebody campaigns. */
  begin(): void {
    this.#isWanted = true
  }

  opened(session: Session): void {
    // Whoever wanted it has given up meanwhile.
    if (!this.#isWanted) return session.end('shutdown', true)
    this.#session = session
    const prober = new Prober(session, this.#key, this.#grace, this.#host)
    session.bound = new Owner(session, this.#grace, this.#host, connection => void prober.run(connection))
  }

  /** Nobody campaigns or leads under it: nothing of it is left. */
  end(): void {
    this.#isWanted = false
    this.#session?.end('shutdown', true)
    this.#session = undefined
  }
}
