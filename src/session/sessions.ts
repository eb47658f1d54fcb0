import type { Wire } from '../database/lane.ts'
import { Session, type SessionHost } from './session.ts'
import type { Use } from './use.ts'

/**
 * The sessions of one client: one for each time to live, and those apart; opened when it is first needed and again when it is
 * over.
 */
export class Sessions {
  readonly #byUse = new Map<Use, Session>()
  readonly #opening = new Map<Use, Promise<Session>>()
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
  current(use: Use): Session | undefined {
    const session = this.#byUse.get(use)
    return session && session.trust() !== 'over' ? session : undefined
  }

  /** @throws what the call throws; the next one tries again */
  async open(use: Use): Promise<Session> {
    let opening = this.#opening.get(use)
    if (!opening) {
      opening = this.#open(use).finally(() => this.#opening.delete(use))
      this.#opening.set(use, opening)
    }
    return await opening
  }

  all(): Session[] {
    return [...this.#byUse.values()]
  }

  forget(session: Session): void {
    if (this.#byUse.get(session.use) === session) this.#byUse.delete(session.use)
  }

  async #open(use: Use): Promise<Session> {
    for (;;) {
      const session = new Session(this.#host, use)
      if (!(await session.open(this.#wire, this.#timeout, this.#about()))) continue
      this.#byUse.set(use, session)
      if (typeof use !== 'number') use.opened(session)
      return session
    }
  }
}
