import type { Witness } from '../database/answers.ts'
import { type Moment, now, type Reading, wasStepped } from './clock.ts'

/** What this client has seen of the server, over all its sessions: the source of the witness of every call. */
export class Knowledge {
  #base = 0n
  #boot: string | undefined
  #reading: Reading | undefined
  /** After a proved step of the server's clock, until the grace that it calls for is there. */
  #steppedTo: Reading | undefined

  get boot(): string | undefined {
    return this.#boot
  }

  witness(): Witness {
    const reading = this.#reading
    return {
      base: this.#base.toString(),
      serverTime: reading?.serverTime,
      elapsed: reading ? performance.now() - reading.answered.monotonic : 0,
    }
  }

  /** Takes an answer in. Says whether the server has begun a new life since the last one, or its clock was stepped. */
  learn(
    answer: { readonly base: string; readonly boot: string; readonly serverTime: number },
    sent: Moment,
  ): { reborn: boolean; stepped: boolean } {
    const base = BigInt(answer.base)
    if (base > this.#base) this.#base = base
    const reborn = this.#boot !== undefined && this.#boot !== answer.boot
    this.#boot = answer.boot
    const reading = { sent, answered: now(), serverTime: answer.serverTime }
    const stepped = !reborn && this.#reading !== undefined && wasStepped(this.#reading, reading)
    // The old reading stays until then: every call of ours is in doubt and judges no expiry by the new clock.
    if (stepped) this.#steppedTo = reading
    else this.#reading = reading
    return { reborn, stepped }
  }

  /** The server has begun the grace. */
  graced(): void {
    if (this.#steppedTo) this.#reading = this.#steppedTo
    this.#steppedTo = undefined
  }
}
