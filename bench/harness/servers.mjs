import { execFile } from 'node:child_process'
import { connect } from 'node:net'
import { promisify } from 'node:util'
import { temporaryFolder } from './folders.mjs'
import { freePort, startProgram } from './programs.mjs'

const execute = promisify(execFile)

/**
 * What every server of the bench is to its users.
 * @typedef {object} Server
 * @property {string} url
 * @property {string} version
 * @property {string} settings how it was started, for the printed report
 */

/**
 * Redis as a pure cache, its fastest form: nothing is written to disk.
 * @returns {Promise<Server>}
 */
export async function startRedis() {
  const folder = await temporaryFolder('redis')
  const port = await freePort()
  const settings = ['--save', '', '--appendonly', 'no']
  await startProgram({
    command: 'redis-server',
    install: 'apt-get install redis-server',
    args: ['--bind', '127.0.0.1', '--port', String(port), '--dir', folder, ...settings],
    folder,
    answers: () => ping(port),
  })
  const version = await execute('redis-server', ['--version'])
  return {
    url: `redis://127.0.0.1:${port}`,
    version: /v=(\S+)/.exec(version.stdout)?.[1] ?? '?',
    settings: "save '', appendonly no",
  }
}

/**
 * One etcd member with its defaults. It has no mode without fsync before 3.5, and Debian carries 3.4.
 * @returns {Promise<Server>}
 */
export async function startEtcd() {
  const folder = await temporaryFolder('etcd')
  const client = `http://127.0.0.1:${await freePort()}`
  const peer = `http://127.0.0.1:${await freePort()}`
  await startProgram({
    command: 'etcd',
    install: 'apt-get install etcd-server',
    args: [
      ...['--data-dir', folder, '--log-level', 'warn'],
      ...['--listen-client-urls', client, '--advertise-client-urls', client],
      ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer],
      ...['--initial-cluster', `default=${peer}`],
    ],
    folder,
    answers: () => healthy(client),
  })
  const version = await execute('etcd', ['--version'])
  return {
    url: client,
    version: /etcd Version: (\S+)/.exec(version.stdout)?.[1] ?? '?',
    settings: 'one member, defaults (fsync on)',
  }
}

/** @param {number} port */
function ping(port) {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'))
    socket.once('data', reply => {
      socket.destroy()
      if (String(reply).startsWith('+PONG')) resolve(undefined)
      else reject(new Error(`redis-server answered ${reply}`))
    })
    socket.once('error', reject)
  })
}

/** @param {string} url */
async function healthy(url) {
  const reply = await fetch(`${url}/health`)
  if (!reply.ok) throw new Error(`etcd is not healthy: ${reply.status}`)
}
