import { execFileSync } from 'node:child_process'
import { closeSync, existsSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const source = fileURLToPath(new URL('clock.c', import.meta.url))

/** The wall clock of servers, which can be moved while they run. Their monotonic clock stays right. */
export class Clock {
  #file
  /** What a server is started with. @type {Record<string, string>} */
  env = {}

  /** @param {string} folder that the servers' user can read. Without a C compiler the clock cannot be moved. */
  constructor(folder) {
    this.#file = join(folder, 'clock')
    writeFileSync(this.#file, Buffer.alloc(8), { mode: 0o644 })
    const library = join(folder, 'clock.so')
    try {
      execFileSync('cc', ['-shared', '-fPIC', '-O2', '-o', library, source], { stdio: 'ignore' })
    } catch {
      return
    }
    this.env = { LD_PRELOAD: library, FENCEPOST_CLOCK: this.#file }
  }

  get isMovable() {
    return existsSync(String(this.env.LD_PRELOAD))
  }

  /** @param {number} seconds by which it is ahead. */
  move(seconds) {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(seconds))
    // In place: it is mapped.
    const file = openSync(this.#file, 'r+')
    writeSync(file, bytes, 0, 8, 0)
    closeSync(file)
  }
}
