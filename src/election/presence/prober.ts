import type { Connection } from '../../database/connection.ts'
import { wireOf } from '../../database/lane.ts'
import type { Session } from '../../session/session.ts'
import { Absences } from './absences.ts'
import type { PresenceHost } from './host.ts'

/** A candidate that waits: asks whether who holds the key is there, and has it buried when it has been gone for its grace. */
export class Prober {
  readonly #session: Session
  readonly #key: string
  readonly #grace: number
  readonly #host: PresenceHost
  readonly #absences = new Absences()

  constructor(session: Session, key: string, grace: number, host: PresenceHost) {
    this.#session = session
    this.#key = key
    this.#grace = grace
    this.#host = host
  }

  /** As long as the connection is good. Never rejects. */
  async run(connection: Connection): Promise<void> {
    this.#absences.forget()
    while (connection.isOpen && !this.#session.isOver) {
      let pause = this.#grace / 12
      try {
        if (this.#host.isWaiting(this.#session)) pause = await this.#probe(connection)
        else this.#absences.forget()
      } catch {
        // Of the connection: it has ended. Of the server: asked again.
      }
      await new Promise<void>(resolve => setTimeout(resolve, pause).unref())
    }
  }

  /** @returns milliseconds until the next */
  async #probe(connection: Connection): Promise<number> {
    const { calls, knowledge, look } = this.#host
    const wire = wireOf(connection)
    const sent = performance.now()
    const peers = await calls.probe(wire, this.#grace, this.#session.id, this.#key)
    this.#absences.note(peers, performance.now())
    const holder = peers.find(peer => peer.holds)
    if (!holder) return this.#grace / 12
    const interval = Math.min(this.#grace, holder.grace) / 12
    const due = this.#absences.dueAt(holder)
    if (due === undefined) return interval
    if (sent < due) return Math.max(Math.min(interval, due - performance.now()), 1)
    if (await calls.reap(wire, this.#grace, this.#key, holder, knowledge.witness()))
      look(this.#session, this.#key)
    return interval
  }
}
