import type { LossReason } from '../errors.ts'

/** What a session holds: it is told of the loss, once. */
export interface Holding {
  readonly key: string
  /** Decimal text; in a run not the one under which the session holds it. */
  readonly ownToken: string
  lose(reason: LossReason): void
}

/** All that a session holds, by the grant's token. Tells when it begins to be anything, and when the last is given back. */
export class Holdings extends Map<string, Holding> {
  readonly #changed: (holdsAny: boolean) => void

  constructor(changed: (holdsAny: boolean) => void) {
    super()
    this.#changed = changed
  }

  override set(token: string, holding: Holding): this {
    const wasEmpty = this.size === 0
    super.set(token, holding)
    if (wasEmpty) this.#changed(true)
    return this
  }

  override delete(token: string): boolean {
    const wasThere = super.delete(token)
    if (wasThere && this.size === 0) this.#changed(false)
    return wasThere
  }
}
