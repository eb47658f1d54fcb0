// Servers of the test's own: children of this process, each with its log, ended by their process ids.
import { spawn } from 'node:child_process'
import { openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { sleep } from '../../faults/history.mjs'
import { load } from '../../faults/load.mjs'

const { serverAccount } = await load('../../src/testing/account.ts')

/** Whom servers run as: PostgreSQL refuses root. @type {{ uid?: number, gid?: number }} */
export const account = serverAccount()

// At the end of this process, however it ends: whoever is left in the list, and every postmaster. CONT, for who was stopped.
const script = `
read -r released && exit 0
for attempt in 1 2 3; do
  for pid in $(cat "$1/pids"); do kill -s KILL "$pid"; done
  for file in "$1"/*/data/postmaster.pid; do
    pid=$(head -n 1 "$file") && kill -s QUIT "$pid" && kill -s CONT "$pid"
  done
  sleep 0.5
done 2>/dev/null
rm -rf "$1"
`

/** What was started in one folder. */
export class Programs {
  #folder
  /** @type {Map<string, Program>} */
  #running = new Map()
  #leash

  /** @param {string} folder */
  constructor(folder) {
    this.#folder = folder
    this.#list()
    this.#leash = spawn('/bin/sh', ['-c', script, 'leash', folder], {
      cwd: '/',
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    this.#leash.unref()
    this.#leash.stdin.on('error', () => {})
    // @ts-expect-error a pipe is a socket
    this.#leash.stdin.unref()
  }

  /**
   * @param {string} name names its log
   * @param {string} command
   * @param {string[]} args
   * @param {Record<string, string>} [env]
   * @param {object} [user] as whom: the servers' account
   */
  start(name, command, args, env = {}, user = account) {
    const program = new Program(name, command, args, env, user, this.#folder, () => {
      if (this.#running.get(name) === program) this.#running.delete(name)
      this.#list()
    })
    this.#running.set(name, program)
    this.#list()
    return program
  }

  async end() {
    await Promise.all([...this.#running.values()].map(program => program.end()))
    this.#leash.stdin.end('released\n')
  }

  #list() {
    const pids = [...this.#running.values()].map(({ pid }) => pid).filter(pid => pid !== undefined)
    writeFileSync(join(this.#folder, 'pids'), `${pids.join('\n')}\n`)
  }
}

export class Program {
  isRunning = true
  ended
  #child

  constructor(name, command, args, env, user, folder, onEnd) {
    this.name = name
    this.logFile = join(folder, `${name}.log`)
    const log = openSync(this.logFile, 'a')
    const inherited = Object.entries(process.env).filter(([key]) => !/^(PG|PATRONI|ETCD)/.test(key))
    this.#child = spawn(command, args, {
      ...user,
      cwd: folder,
      env: { ...Object.fromEntries(inherited), LC_ALL: 'C.UTF-8', HOME: folder, ...env },
      stdio: ['ignore', log, log],
      // Out of reach of a Ctrl-C: it is stopped when its clients have gone.
      detached: true,
    })
    this.ended = new Promise(resolve => {
      const end = () => {
        this.isRunning = false
        onEnd()
        resolve(undefined)
      }
      this.#child.once('exit', end)
      this.#child.once('error', end)
    })
  }

  get pid() {
    return this.#child.pid
  }

  /** @param {NodeJS.Signals} name */
  signal(name) {
    if (this.isRunning) this.#child.kill(name)
  }

  /** @param {NodeJS.Signals} [name] */
  async end(name = 'SIGTERM') {
    this.signal('SIGCONT')
    this.signal(name)
    await Promise.race([this.ended, sleep(20_000)])
    this.signal('SIGKILL')
    await this.ended
  }

  /** The end of its log, for a failure. */
  get words() {
    return readFileSync(this.logFile, 'utf8').slice(-2_000)
  }
}

/** Whether a process runs: not so one that has ended and waits to be reaped. @param {number} pid */
export function isAlive(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.[0] !== 'Z'
  } catch {
    return false
  }
}

/** A process and all that come from it. @param {number} pid @returns {number[]} */
export function familyOf(pid) {
  const parents = new Map()
  for (const name of readdirSync('/proc').filter(one => /^\d+$/.test(one))) {
    try {
      const parent = Number(readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[1])
      parents.set(parent, [...(parents.get(parent) ?? []), Number(name)])
    } catch {
      // It has ended meanwhile.
    }
  }
  const all = [pid]
  for (const one of all) all.push(...(parents.get(one) ?? []))
  return all
}

/** @param {number[]} pids @param {NodeJS.Signals} name */
export function signalAll(pids, name) {
  for (const pid of pids) {
    try {
      process.kill(pid, name)
    } catch {
      // It has ended meanwhile.
    }
  }
}

/** Ports of 127.0.0.1 that nobody listens on, below those that outgoing connections are given. @param {number} count */
export async function freePorts(count) {
  /** @type {number[]} */
  const ports = []
  while (ports.length < count) {
    const port = 20_000 + Math.floor(Math.random() * 12_000)
    if (!ports.includes(port) && (await isFree(port))) ports.push(port)
  }
  return ports
}

function isFree(port) {
  return new Promise(resolve => {
    const probe = createServer().once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
}

/** Looks again and again until it is so. @template T @param {() => Promise<T>} look @param {string} what @param {number} [within] milliseconds */
export async function until(look, what, within = 60_000) {
  const end = performance.now() + within
  for (let cause; ; await sleep(50)) {
    const seen = await look().catch(error => {
      cause = error
    })
    if (seen) return seen
    if (performance.now() > end) throw new Error(`not within ${within / 1_000} s: ${what}`, { cause })
  }
}
