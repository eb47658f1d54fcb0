import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('worker.mjs', import.meta.url))

class Worker {
  counts = { ready: 0, holds: 0, acknowledged: 0, refused: 0 }
  heldAt = 0
  #process

  constructor(way, url) {
    this.#process = spawn(process.execPath, [script, way], {
      env: { ...process.env, DATABASE_URL: url },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.ended = once(this.#process, 'close')
    this.#process.stdin.on('error', () => {})
    this.ready = new Promise((resolve, reject) => {
      createInterface({ input: this.#process.stdout }).on('line', word => {
        this.counts[word] += 1
        if (word === 'ready') resolve()
        if (word === 'holds') this.heldAt = performance.now()
      })
      this.ended.then(() => reject(new Error('a worker ended early')))
    })
    this.ready.catch(() => {})
  }

  stop() {
    this.#process.kill('SIGSTOP')
  }

  goOn() {
    this.#process.kill('SIGCONT')
  }

  finish() {
    this.#process.stdin.end()
  }

  /** A process that is stopped can still be killed. */
  kill() {
    this.#process.kill('SIGKILL')
  }
}

/** The processes that contend. */
export class Crew {
  constructor(size, way, url) {
    this.workers = Array.from({ length: size }, () => new Worker(way, url))
  }

  async ready() {
    await Promise.all(this.workers.map(worker => worker.ready))
  }

  anyone() {
    return this.workers[Math.floor(Math.random() * this.workers.length)]
  }

  /** Who was the last to say that it holds the lock. */
  holder() {
    return this.workers.reduce((last, worker) => (worker.heldAt > last.heldAt ? worker : last))
  }

  /** Lets all of them come to an end, and answers what became of their work. */
  async finish() {
    for (const worker of this.workers) worker.finish()
    await Promise.all(this.workers.map(worker => worker.ended))
    const sum = word => this.workers.reduce((total, worker) => total + worker.counts[word], 0)
    return { acknowledged: sum('acknowledged'), refused: sum('refused') }
  }

  kill() {
    for (const worker of this.workers) worker.kill()
  }
}
