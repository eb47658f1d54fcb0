import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { strike } from './faults/schedule.mjs'
import { now, readHistory, readLines, recorder, sleep } from './history.mjs'
import { load } from './load.mjs'
import { Cluster } from './server/cluster.mjs'
import { leftovers, tables } from './server/record.mjs'

const { startProxy } = await load('../support/proxy.ts')
const { Child } = await load('../support/child.ts')
const script = new URL('worker/main.mjs', import.meta.url)
const counted = { guarded: 4, fenced: 3, rw: 3, several: 7, election: 2, fast: 2 }
const keys = Object.entries(counted).flatMap(([name, count]) =>
  Array.from({ length: count }, (_, i) => `${name}:${i + 1}`),
)

/** One run: servers, workers, faults, and the record of it in a folder. */
export class Campaign {
  cluster = new Cluster()
  /** @type {any[]} */
  workers = []
  /** @type {Record<string, number>} */
  #noted = {}
  /** Whether the record outlives the run: something was found in it. */
  keeps = false
  #gone = []
  /** @type {any[]} */
  #lost = []
  /** The faults, while they go on. */
  #striking
  stopping = false

  /** @param {{ seed: string, folder: string, workers: number, pair: boolean, plant?: any, actors?: string[] }} options */
  constructor(options) {
    this.options = options
    mkdirSync(options.folder, { recursive: true })
    this.log = recorder(options.folder, 'campaign')
  }

  async start() {
    const { pair, plant, workers } = this.options
    await this.cluster.start({ pair })
    await this.cluster.query('insert into data.counters select unnest($1::text[])', [keys])
    for (const change of plant?.sql ?? []) await change(this.cluster)
    await Promise.all(Array.from({ length: workers }, (_, i) => this.#hire(`w${i + 1}`)))
  }

  /**
   * Traffic under faults for so long. Those that `missing` names by then, since they had no effect yet, strike again, for
   * half as long at the most.
   */
  async run({ seconds, faults, counts, stopEarly = async () => false, missing = async () => [] }) {
    const { seed } = this.options
    const began = now()
    const until = began + seconds * 1_000
    this.#striking = strike(this, { names: faults, seed, until, counts })
    while (now() < until && !(await stopEarly())) await sleep(Math.min(until - now(), 4_000))
    this.seconds = (now() - began) / 1_000
    if (now() < until) return
    await this.#striking
    for (const last = until + seconds * 500; now() < last; ) {
      const names = await missing()
      if (names.length === 0) break
      this.#striking = strike(this, { names, seed: `${seed} again`, until: last, counts, isOnce: true })
      await this.#striking
    }
    this.seconds = (now() - began) / 1_000
  }

  async calm() {
    for (const { name, proxy } of this.workers) {
      this.log('proxy', 'ok', name, { port: proxy.port, counters: proxy.counters })
      proxy.release()
    }
    await this.serverAnswers()
    this.log('calm', 'ok', 'calm')
    await sleep(3_000)
    for (const worker of this.workers) worker.child.send('finish')
    await Promise.all(this.workers.map(worker => this.#farewell(worker)))
    await sleep(300)
    return { ...(await this.tables()), leftovers: await leftovers(this.cluster) }
  }

  /** What is known so far, as the checker takes it. */
  async record(final) {
    const journal = entriesOf(await this.cluster.query('select * from audit.journal order by seq'))
    return { events: readHistory(this.options.folder), journal, lost: this.#lost, final }
  }

  /** @param {any[]} rows of a journal whose server was left behind, that are in no other. */
  lose(rows) {
    this.#lost.push(...entriesOf(rows))
  }

  save(run) {
    const write = (name, lines) =>
      writeFileSync(
        join(this.options.folder, name),
        `${lines.map(line => JSON.stringify(line)).join('\n')}\n`,
      )
    write('journal.jsonl', run.journal)
    write('lost.jsonl', run.lost)
    writeFileSync(join(this.options.folder, 'final.json'), JSON.stringify(run.final))
  }

  bitten(effect, times = 1) {
    this.#noted[effect] = (this.#noted[effect] ?? 0) + times
  }

  /** Effects that the faults and the proxies have seen so far, and how often. */
  get noted() {
    const counters = [...this.workers, ...this.#gone].map(({ proxy }) => proxy.counters)
    const sum = name => counters.reduce((total, counter) => total + counter[name], 0)
    return { ...this.#noted, connectionsCut: sum('cut'), repliesDropped: sum('repliesDropped') }
  }

  /** The protected tables as they are now. */
  async tables() {
    return await tables(this.cluster)
  }

  async serverAnswers() {
    for (let i = 0; i < 300 && !this.stopping && !(await this.cluster.answers()); i++) await sleep(50)
  }

  /** Another process in the place of one that was killed. */
  async respawn(worker) {
    this.log('process', 'fail', worker.name)
    // The kill is written in the name of the killed, too, for whoever reads only that.
    recorder(this.options.folder, worker.name)('process', 'fail', `${worker.name}-killed`)
    this.workers = this.workers.filter(one => one !== worker)
    this.#gone.push(worker)
    const [first, life = '1'] = worker.name.split('.')
    await this.#hire(`${first}.${Number(life) + 1}`)
  }

  async end() {
    this.stopping = true
    await this.#striking
    for (const worker of [...this.workers, ...this.#gone]) {
      await worker.child.kill()
      await worker.proxy.close()
    }
    try {
      writeFileSync(join(this.options.folder, 'server.log'), readFileSync(this.cluster.primary.logFile))
    } catch {
      // It never came up.
    }
    await this.cluster.end()
  }

  /** Deadlocks and broken assertions that the server has logged. */
  serverComplaints() {
    const text = readFileSync(this.cluster.primary.logFile, 'utf8')
    return text
      .split('\n')
      .filter(line => /deadlock detected|PANIC|TRAP|tuple concurrently updated/.test(line))
      .filter(line => !/No space left on device/.test(line))
  }

  async #hire(name) {
    const { seed, folder, plant, actors } = this.options
    const direct = new URL(this.cluster.url)
    direct.port = String(this.cluster.port)
    const proxy = await startProxy(direct.href)
    const args = {
      name,
      seed,
      folder,
      url: proxy.url(direct.href),
      listens: listens(name),
      only: actors,
      copies: plant?.copies,
    }
    const env = plant?.client
      ? {
          NODE_OPTIONS: `--import ${new URL('plants/hook.mjs', import.meta.url).href}`,
          FENCEPOST_FAULTS_PLANT: plant.name,
        }
      : {}
    const child = new Child(script, { args: [JSON.stringify(args)], env })
    const worker = { name, child, proxy, listens: listens(name) }
    await child.message('ready', { within: 20_000 })
    this.workers.push(worker)
    return worker
  }

  async #farewell(worker) {
    try {
      await worker.child.message('finished', { within: 25_000 })
    } catch (error) {
      this.log('farewell', 'fail', worker.name, { message: String(error.message) })
    }
  }
}

const entriesOf = rows => rows.map(row => ({ ...row, seq: Number(row.seq) }))

/** The fourth process polls. */
const listens = name => !name.startsWith('w4')

/** A run that was saved. */
export function saved(folder) {
  const final = JSON.parse(readFileSync(join(folder, 'final.json'), 'utf8'))
  return {
    events: readHistory(folder),
    journal: readLines(join(folder, 'journal.jsonl')),
    lost: readLines(join(folder, 'lost.jsonl')),
    final: final ?? undefined,
  }
}
