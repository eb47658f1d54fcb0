/**
 * The database's clock, as far as this process knows: the time of its last answer and, by the monotonic clock, what has
 * passed since. Never ahead of it but by a drift of ours between two answers: nobody is asked too early.
 */
export class ServerClock {
  #time = 0
  #answered = 0

  /** @param time milliseconds since 1970, of an answer that came just now */
  learn(time: number): void {
    this.#time = time
    this.#answered = performance.now()
  }

  now(): number {
    return this.#time + performance.now() - this.#answered
  }
}
