import { UnhealthyError } from '../errors.ts'

/** What the application says of itself. A process that is unhealthy for a whole ttl gives up all that it holds. */
export class Health {
  readonly #healthy: () => boolean
  #unhealthySince: number | undefined

  constructor(healthy: () => boolean) {
    this.#healthy = healthy
  }

  /** Asked before each renewal: whether a session of this ttl may go on. */
  allows(ttl: number): boolean {
    if (this.#ask()) {
      this.#unhealthySince = undefined
      return true
    }
    this.#unhealthySince ??= performance.now()
    return performance.now() - this.#unhealthySince < ttl
  }

  /** Asked before each acquire. @throws UnhealthyError */
  check(ttl: number): void {
    if (this.#unhealthySince === undefined || performance.now() - this.#unhealthySince < ttl) return
    if (!this.#ask()) throw new UnhealthyError('healthy() has answered false for a whole ttl')
    this.#unhealthySince = undefined
  }

  #ask(): boolean {
    try {
      return this.#healthy() !== false
    } catch {
      return false
    }
  }
}
