import type { Wire } from '../database/lane.ts'
import type { Desk } from './desk.ts'

/** Bytes: what PostgreSQL allows in a notification, less some room. */
const longestPayload = 7_500

/** Keys that have moved on, by the channel of who has them next. */
export class Hints {
  readonly #desk: Desk
  readonly #keys = new Map<string, Set<string>>()

  constructor(desk: Desk) {
    this.#desk = desk
  }

  get isEmpty(): boolean {
    return this.#keys.size === 0
  }

  add(channel: string, key: string): void {
    const keys = this.#keys.get(channel)
    if (keys) keys.add(key)
    else this.#keys.set(channel, new Set([key]))
  }

  async send(wire: Wire): Promise<void> {
    const { calls, callTimeout, metrics } = this.#desk.options
    const hints = [...this.#keys].map(([channel, keys]) => ({ channel, payload: payloadOf([...keys]) }))
    this.#keys.clear()
    metrics.sent += hints.length
    try {
      await calls.notify(wire, callTimeout, hints)
    } catch {
      // A hint and no more: who waits looks within the poll interval.
    }
  }
}

/** The keys as JSON; empty when they are too long: look at everything. */
function payloadOf(keys: readonly string[]): string {
  const payload = JSON.stringify(keys)
  return Buffer.byteLength(payload) <= longestPayload ? payload : ''
}
