import { readFileSync } from 'node:fs'
import pg from 'pg'
import { now, sleep } from '../../faults/history.mjs'
import { familyOf, freePorts, signalAll, until } from '../cluster/programs.mjs'
import { expectIncarnations, expectTruthful, figuresOf } from './outcome.mjs'

const grabbed = Array.from({ length: 10 }, (_, i) => `late:${i + 1}`)

/** Its last commits are nowhere else: grants among them, in which their holders believe. */
export const killedAsynchronous = {
  number: 2,
  name: 'the primary is killed with commits that nobody else has, asynchronous replication',
  async run(stage) {
    const { cluster } = stage
    await cluster.configure({ maximum_lag_on_failover: 67_108_864 })
    await stage.start({ replication: 'asynchronous', maxTtl: '40s' })
    const old = await cluster.primary()
    const [holder, newcomer] = stage.workers
    const standbys = cluster.nodes.filter(node => node !== old)
    let began = 0
    const kill = async () => {
      await holdBack(standbys)
      holder.child.send('grab', { keys: grabbed })
      await until(async () => told(stage).size === grabbed.length, 'all of them are granted', 3_000)
      began = now()
      await old.kill()
      const next = await cluster.succeeded(old)
      newcomer.child.send('grab', { keys: grabbed })
      return next
    }
    const { at } = await stage.fault('primary-killed', kill, { life: true })
    stage.lost.push(...(await lostWith(cluster, old)))
    old.start()
    await sleep(5_000)
    const { events, violations } = await stage.judge(run => {
      expectIncarnations(stage, run, 1)
      expectTruthful(stage, run, began, at)
      const lost = stage.lost.filter(({ event, key }) => event === 'granted' && grabbed.includes(key))
      stage.expect(lost.length > 0, 'no grant was lost')
      const granted = run.events.filter(
        ({ op, phase, key, process }) =>
          op === 'acquire' && phase === 'ok' && grabbed.includes(key) && process === 'w2',
      )
      stage.expect(
        granted.length === grabbed.length,
        `${granted.length} newcomers were granted, not ${grabbed.length}`,
      )
    })
    await cluster.configure({ maximum_lag_on_failover: 1_048_576 })
    return { violations, figures: { ...figuresOf(events, began, at), max_ttl: 40 } }
  },
}

const told = stage =>
  new Set(
    stage.events
      .filter(({ op, phase, key }) => op === 'acquire' && phase === 'ok' && grabbed.includes(key))
      .map(({ key }) => key),
  )

/** Ends what receives for them until they wait before they try again, which is for 5 s. */
async function holdBack(standbys) {
  const end = now() + 700
  while (now() < end) {
    signalAll(standbys.flatMap(receiversOf), 'SIGTERM')
    await sleep(20)
  }
}

function receiversOf({ postmaster }) {
  return postmaster === undefined ? [] : familyOf(postmaster).filter(pid => /walreceiver/.test(titleOf(pid)))
}

function titleOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

/** What the old primary's journal has, and no other: read from its data, which is started once more, apart. */
async function lostWith(cluster, old) {
  const text = 'select * from audit.journal order by seq'
  const [port = 0] = await freePorts(1)
  const settings = [
    `port=${port}`,
    'listen_addresses=127.0.0.1',
    'max_connections=100',
    `unix_socket_directories=${old.folder}`,
  ]
  const args = ['-D', old.dataDir, ...settings.flatMap(setting => ['-c', setting])]
  const apart = cluster.programs.start('apart', '/usr/lib/postgresql/15/bin/postgres', args)
  try {
    const url = new URL(old.url)
    url.port = String(port)
    const rows = await until(
      async () => await ask(url.href, text),
      'the old primary answers once more',
      30_000,
    )
    const kept = new Set((await cluster.query(text)).map(row => JSON.stringify(row)))
    return rows.filter(row => !kept.has(JSON.stringify(row)))
  } finally {
    await apart.end('SIGINT')
  }
}

async function ask(url, text) {
  const client = new pg.Client({ connectionString: url, query_timeout: 20_000 })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query(text)).rows
  } finally {
    await client.end().catch(() => {})
  }
}
