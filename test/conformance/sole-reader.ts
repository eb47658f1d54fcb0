import type { Lock } from '../../src/index.ts'

type Mode = 'shared' | 'exclusive'

/** Says who may be a reader, so that there is at most one of a key, whoever asks and whenever. */
export class SoleReader {
  /** Whether the last one of a key is still about: asking, in line, or holding as far as it knows. */
  readonly #isAbout = new Map<string, () => boolean>()

  ask<L extends Lock | null>(key: string, asking: (mode: Mode) => Promise<L>): Promise<L> {
    return this.#follow(key, asking, lock =>
      lock === null ? () => false : () => lock.state !== 'released' && lock.state !== 'lost',
    )
  }

  /** @param running a whole section */
  run<T>(key: string, running: (mode: Mode) => Promise<T>): Promise<T> {
    return this.#follow(key, running, () => () => false)
  }

  #follow<T>(
    key: string,
    ask: (mode: Mode) => Promise<T>,
    isAboutAfter: (answer: T) => () => boolean,
  ): Promise<T> {
    if (this.#isAbout.get(key)?.() === true) return ask('exclusive')
    let isAbout = () => true
    this.#isAbout.set(key, () => isAbout())
    const asked = ask('shared')
    asked.then(
      answer => {
        isAbout = isAboutAfter(answer)
      },
      () => {
        isAbout = () => false
      },
    )
    return asked
  }
}
