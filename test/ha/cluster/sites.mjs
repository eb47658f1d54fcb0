import { execFileSync, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { account } from './programs.mjs'

/** Set in a process that has network and mounts of its own: it has nobody else's network to change. */
const mark = 'FENCEPOST_HA_APART'

export const isApart = () => process.env[mark] !== undefined

/** Whether this process may have one. */
export const mayBeApart = () =>
  process.getuid?.() === 0 &&
  spawnSync('unshare', ['--net', '--mount', 'ip', 'link', 'set', 'lo', 'up'], { stdio: 'ignore' }).status ===
    0

/** Runs this program once more, apart. @param {string[]} args @returns {boolean} whether it exited with 0 */
export function runApart(args) {
  // `ip netns` keeps names in /run.
  const script = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"'
  const command = ['/bin/sh', '-c', script, 'apart', process.execPath, ...args]
  const env = { ...process.env, [mark]: '1' }
  return spawnSync('unshare', ['--net', '--mount', ...command], { stdio: 'inherit', env }).status === 0
}

/** Hosts that see each other by way of this one, until they are split: network namespaces with an address each. */
export class Sites {
  #count
  /** @type {string[][]} */
  #rules = []

  /** @param {number} count */
  constructor(count) {
    this.#count = count
  }

  start() {
    writeFileSync('/proc/sys/net/ipv4/ip_forward', '1')
    for (let i = 1; i <= this.#count; i++) {
      ip('netns', 'add', `site${i}`)
      ip('link', 'add', `to-site${i}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', `site${i}`)
      ip('addr', 'add', `10.77.${i}.1/30`, 'dev', `to-site${i}`)
      ip('link', 'set', `to-site${i}`, 'up')
      const inside = (...args) => ip('-n', `site${i}`, ...args)
      inside('addr', 'add', `${this.address(i)}/30`, 'dev', 'eth0')
      inside('link', 'set', 'lo', 'up')
      inside('link', 'set', 'eth0', 'up')
      inside('route', 'add', 'default', 'via', `10.77.${i}.1`)
    }
  }

  /** @param {number} site from 1 */
  address(site) {
    return `10.77.${site}.2`
  }

  /** Nothing passes between the two; this host reaches both. @param {number[]} one @param {number[]} other */
  split(one, other) {
    for (const a of one.map(site => this.address(site))) {
      for (const b of other.map(site => this.address(site))) {
        this.#rules.push(['from', a, 'to', b, 'blackhole'], ['from', b, 'to', a, 'blackhole'])
      }
    }
    for (const rule of this.#rules) ip('rule', 'add', ...rule)
  }

  heal() {
    for (const rule of this.#rules.splice(0)) ip('rule', 'del', ...rule)
  }

  /** How a command is run there, as the servers' user. @returns {[string, string[]]} */
  command(site, command, args) {
    const user =
      account.uid === undefined
        ? []
        : ['setpriv', `--reuid=${account.uid}`, `--regid=${account.gid}`, '--clear-groups']
    return ['ip', ['netns', 'exec', `site${site}`, ...user, command, ...args]]
  }
}

function ip(...args) {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'inherit'] })
}
