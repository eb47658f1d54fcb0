// Several processes on hot and cold keys, with kills, stops, aborts and ended connections, for FENCEPOST_SOAK seconds
// (12 unless set). What each believed is recorded; afterwards no two beliefs about a key overlap, tokens rise in the
// order of the grants, and nothing is left, nor has anything grown.
import { expect, test } from 'vitest'
import { Child } from '../support/child.ts'
import { until } from '../support/until.ts'
import { type Belief, overlaps, readBeliefs } from './history.ts'
import { serverStage } from './server.ts'
import { clock } from './worker.ts'

const seconds = Number(process.env.FENCEPOST_SOAK ?? 12)
const { stage } = serverStage({ autovacuum_naptime: '1s' })
const script = new URL('./soak.mjs', import.meta.url)
const ttl = 1_200

interface Ended {
  readonly child: Child
  /** When it was killed, if it was. */
  readonly killed?: number
}

async function start(): Promise<Child> {
  const { url: connectionString, schema } = stage.db
  const options = { connectionString, schema, ttl, poll: '300ms', tasks: 12, hot: 5, cold: 5_000 }
  const child = new Child(script, { args: [JSON.stringify(options)] })
  await child.message('ready')
  return child
}

/** What the protocol keeps in the database just now. */
async function look() {
  const [row] = await stage.sql(`
    select (select count(*)::int from $schema.sessions) as sessions, (select count(*)::int from $schema.locks) as locks,
           (select count(*)::int from $schema.waiters) as waiters,
           (select coalesce(max(pg_total_relation_size(c.oid)), 0)::int from pg_class c
             where c.oid in (to_regclass('$schema.sessions'), to_regclass('$schema.locks'), to_regclass('$schema.waiters'))) as size`)
  return row as { sessions: number; locks: number; waiters: number; size: number }
}

test(
  `soak for ${seconds} s`,
  async () => {
    const running = await Promise.all([start(), start(), start(), start()])
    const ended: Ended[] = []
    const samples: Awaited<ReturnType<typeof look>>[] = []
    const faults = { killed: 0, stopped: 0, terminated: 0 }
    const finish = performance.now() + seconds * 1_000
    const victim = () => running[Math.floor(Math.random() * running.length)] as Child

    const disturb = [
      async () => {
        const child = victim()
        const killed = clock()
        await child.kill()
        ended.push({ child, killed })
        running.splice(running.indexOf(child), 1, await start())
        faults.killed++
      },
      async () => {
        const child = victim()
        child.stop()
        const stopped = performance.now()
        await until(() => performance.now() - stopped > ttl + 300, { every: 50 })
        child.cont()
        faults.stopped++
      },
      async () => {
        const rows = await stage.sql(
          `select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and application_name like 'fencepost %'`,
        )
        faults.terminated += rows.length
      },
    ]
    for (let round = 0; performance.now() < finish; round++) {
      const next = performance.now() + 1_000
      await until(() => performance.now() > next, { every: 50 })
      samples.push(await look())
      await disturb[round % disturb.length]?.()
    }

    const counts: Record<string, number> = {}
    for (const child of running) {
      child.send('stop')
      const { counts: own } = await child.message('stopped', { within: 20_000 })
      for (const [name, count] of Object.entries(own as Record<string, number>)) {
        counts[name] = (counts[name] ?? 0) + count
      }
      ended.push({ child })
    }
    // The sessions of the killed go by the others' ticks.
    await until(async () => (await look()).sessions <= running.length, { within: 3 * ttl })
    const last = await look()
    for (const child of running) child.send('close')
    expect(await Promise.all(running.map(child => child.exit))).toEqual(running.map(() => 0))
    const { size, ...left } = await look()

    const beliefs: Belief[] = ended.flatMap(({ child, killed }) => readBeliefs(child.said, killed))
    const most = (name: 'sessions' | 'locks' | 'waiters' | 'size') =>
      Math.max(...samples.map(each => each[name]))
    console.log(
      JSON.stringify({
        seconds,
        faults,
        counts,
        beliefs: beliefs.length,
        most: {
          sessions: most('sessions'),
          locks: most('locks'),
          waiters: most('waiters'),
          size: most('size'),
        },
        size,
      }),
    )

    expect(overlaps(beliefs)).toEqual([])
    expect(left).toEqual({ sessions: 0, locks: 0, waiters: 0 })
    expect([last.locks, last.waiters]).toEqual([0, 0])
    // A process has one session, and its 12 tasks one grant or ticket each; what the killed had stays for a ttl.
    const processes = running.length + ended.length
    expect(most('sessions')).toBeLessThanOrEqual(processes)
    expect(most('locks') + most('waiters')).toBeLessThanOrEqual(12 * processes)
    expect(most('size')).toBeLessThan(16 * 2 ** 20)
    // All of it was put to the test.
    expect(faults.killed).toBeGreaterThan(0)
    expect(faults.stopped).toBeGreaterThan(0)
    expect(faults.terminated).toBeGreaterThan(0)
    for (const name of ['granted', 'timed_out', 'aborted', 'busy']) expect(counts[name]).toBeGreaterThan(10)
    expect(counts.lost).toBeGreaterThan(0)
    expect(ended.flatMap(({ child }) => child.log)).toEqual([])
  },
  (seconds + 60) * 1_000,
)
