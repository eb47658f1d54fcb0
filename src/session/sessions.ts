import type { Wire } from '../database/lane.ts'
import { Session, type SessionHost } from './session.ts'

/** The sessions of one client: one for each time to live, opened when it is first needed and again when it is over. */
export class Sessions {
  readonly #byTtl = new Map<number, Session>()
  readonly #opening = new Map<number, Promise<Session>>()
  readonly #host: SessionHost
  readonly #wire: Wire
  readonly #timeout: number
  readonly #about: () => { owner: string | undefined; channel: string | undefined; info: string }

  constructor(
    host: SessionHost,
    wire: Wire,
    timeout: number,
    about: () => { owner: string | undefined; channel: string | undefined; info: string },
  ) {
    this.#host = host
    this.#wire = wire
    this.#timeout = timeout
    this.#about = about
  }

  /** The one that is open, if it is not over. */
  current(ttl: number): Session | undefined {
    const session = this.#byTtl.get(ttl)
    return session && session.trust() !== 'over' ? session : undefined
  }

  /** @throws what the call throws; the next one tries again */
  async open(ttl: number): Promise<Session> {
    let opening = this.#opening.get(ttl)
    if (!opening) {
      opening = this.#open(ttl).finally(() => this.#opening.delete(ttl))
      this.#opening.set(ttl, opening)
    }
    return await opening
  }

  all(): Session[] {
    return [...this.#byTtl.values()]
  }

  forget(session: Session): void {
    if (this.#byTtl.get(session.ttl) === session) this.#byTtl.delete(session.ttl)
  }

  async #open(ttl: number): Promise<Session> {
    for (;;) {
      const session = new Session(this.#host, ttl)
      if (!(await session.open(this.#wire, this.#timeout, this.#about()))) continue
      this.#byTtl.set(ttl, session)
      return session
    }
  }
}
