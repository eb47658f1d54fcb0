import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { now } from './clock.mjs'
import { temporaryFolder } from './folders.mjs'
import { median } from './percentiles.mjs'

/** Milliseconds between two samples: a load of some hundredths. */
const every = 100
const turns = 100_000

/**
 * How fast the machine itself is while something else is measured: a flush of one page, and a loop of fixed length, ten times a
 * second. A window in which both were slow says nothing about what was measured.
 */
export class Machine {
  /** @type {{ at: number, flush: number, loop: number }[]} */
  #samples = []
  #isOver = false
  /** @type {Promise<void>} */
  #done

  constructor() {
    this.#done = this.#run()
  }

  async #run() {
    const folder = await temporaryFolder('machine')
    const file = await open(join(folder, 'page'), 'w')
    const page = Buffer.alloc(8192, 1)
    try {
      while (!this.#isOver) {
        const began = now()
        spin()
        const looped = now()
        await file.write(page, 0, page.length, 0)
        await file.datasync()
        this.#samples.push({ at: began, loop: looped - began, flush: now() - looped })
        await pause(every)
      }
    } finally {
      await file.close()
      await rm(folder, { recursive: true })
    }
  }

  /**
   * The medians of consecutive windows, in microseconds.
   * @param {number} opens
   * @param {number} slice
   * @param {number} slices
   */
  windows(opens, slice, slices) {
    return Array.from({ length: slices }, (_, i) => {
      const inside = this.#samples.filter(({ at }) => at >= opens + i * slice && at < opens + (i + 1) * slice)
      const micros = (/** @type {'flush' | 'loop'} */ what) =>
        Math.round(1000 * median(inside.map(sample => sample[what])))
      return { flush: micros('flush'), loop: micros('loop') }
    })
  }

  async stop() {
    this.#isOver = true
    await this.#done
  }
}

/** Work that nothing can be left out of. */
function spin() {
  let sum = 0
  for (let i = 0; i < turns; i++) sum = (sum * 31 + i) | 0
  return sum
}
