import { readdirSync, readFileSync } from 'node:fs'
import pg from 'pg'
import { sleep } from '../history.mjs'

/** Faults that strike the server, and so every client at once. `life`: what follows is another incarnation. */
export const serverFaults = [
  {
    name: 'backends-terminated',
    bite: 'backendsTerminated',
    async run({ cluster, random, bit }) {
      const share = random.pick([0.2, 0.5, 1])
      const rows = await cluster.query(
        `select pg_terminate_backend(pid) as gone from pg_stat_activity
          where backend_type = 'client backend' and pid <> pg_backend_pid() and random() < $1`,
        [share],
      )
      bit('backendsTerminated', rows.filter(row => row.gone).length)
    },
  },
  {
    // One backend dies of SIGKILL: the postmaster stays, everybody is thrown out, and crash recovery runs.
    name: 'backend-killed',
    bite: 'crashRecoveries',
    life: true,
    async run({ cluster, again }) {
      const [backend] = await cluster.query(
        `select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()
          order by random() limit 1`,
      )
      if (!backend) return
      process.kill(backend.pid, 'SIGKILL')
      await sleep(200)
      await again()
    },
  },
  {
    name: 'server-restarted-fast',
    bite: 'restarts',
    life: true,
    async run({ cluster, random }) {
      await cluster.primary.stop('fast')
      await sleep(random.pick([0, 500, 2_500]))
      await cluster.primary.start()
    },
  },
  {
    name: 'server-crashed',
    bite: 'restarts',
    life: true,
    async run({ cluster, random }) {
      await cluster.primary.stop('immediate')
      await sleep(random.pick([0, 1_000, 2_500]))
      await cluster.primary.start()
    },
  },
  {
    name: 'server-paused',
    bite: 'serverPaused',
    async run({ cluster, random, bit }) {
      const family = [cluster.primary.pid, ...childrenOf(cluster.primary.pid)]
      signal(family, 'SIGSTOP')
      await sleep(random.between(500, 2_800))
      signal(family, 'SIGCONT')
      bit('serverPaused')
    },
  },
  {
    name: 'server-clock-stepped',
    bite: 'clockSteps',
    async run({ cluster, random, withoutClientFaults, bit }) {
      if (!cluster.clock.isMovable) return
      for (const seconds of [random.pick([3, 60, 3_600]), 0]) {
        const before = await offset(cluster)
        // Each client has an answer of this life by then, and one after the step before anything else happens to it: who
        // has none from before a step cannot know of it.
        await withoutClientFaults(async () => {
          await sleep(1_000)
          cluster.clock.move(seconds)
          await sleep(1_000)
        })
        await sleep(3_200)
        if (Math.abs((await offset(cluster)) - before) > 2_000) bit('clockSteps')
      }
    },
  },
  {
    // Statements fail, or the server panics and cannot even recover until there is space again.
    name: 'disk-full',
    bite: 'noSpace',
    async run({ cluster, random, again, bit }) {
      const before = cluster.shortages()
      const makeRoom = await cluster.fillDisk()
      await sleep(random.between(500, 2_000))
      makeRoom()
      // One that is about to give up its recovery is still there for a moment.
      for (let i = 0; i < 2; i++) {
        await sleep(300)
        if (cluster.primary.pid === undefined) await cluster.primary.start()
        await again()
      }
      bit('noSpace', cluster.shortages() - before)
    },
  },
  {
    // Its snapshot keeps vacuum from every row version that dies meanwhile.
    name: 'long-transaction',
    bite: 'vacuumHeldBack',
    async run({ cluster, bit }) {
      const client = new pg.Client({ connectionString: cluster.url })
      client.on('error', () => {})
      await client.connect()
      try {
        await client.query('set idle_in_transaction_session_timeout = 0')
        await client.query('begin isolation level repeatable read')
        await client.query('select count(*) from fencepost.locks')
        await sleep(6_000)
        const [row] = await cluster.query(
          'select max(age(backend_xmin)) as age from pg_stat_activity where backend_xmin is not null',
        )
        if (Number(row?.age) > 500) bit('vacuumHeldBack')
        await client.query('rollback')
      } finally {
        await client.end().catch(() => {})
      }
    },
  },
  {
    name: 'promotion',
    bite: 'promotions',
    life: true,
    pair: true,
    async run({ cluster, random }) {
      await cluster.standBy()
      await sleep(random.between(0, 1_000))
      await cluster.promote()
      await sleep(random.between(0, 300))
    },
  },
  {
    name: 'promotion-with-losses',
    bite: 'lostGrants',
    life: true,
    pair: true,
    async run(ctx) {
      await promoteWithLosses(ctx)
    },
  },
  {
    name: 'promotions-in-a-row',
    bite: 'promotionsInARow',
    life: true,
    pair: true,
    async run(ctx) {
      const { cluster, random, bit } = ctx
      await promoteWithLosses(ctx)
      await cluster.standBy()
      await sleep(random.between(0, 2_000))
      await (random.chance(0.5) ? promoteWithLosses(ctx) : cluster.promote())
      bit('promotionsInARow')
    },
  },
]

async function promoteWithLosses({ cluster, random, lost }) {
  await cluster.standBy()
  lost(await cluster.promoteWithLosses(() => sleep(random.between(50, 1_500))))
}

/** By how many milliseconds the server's wall clock is ahead of ours. */
async function offset(cluster) {
  const [row] = await cluster.query('select (extract(epoch from clock_timestamp()) * 1000)::float8 as time')
  return row.time - Date.now()
}

function signal(pids, name) {
  for (const pid of pids) {
    try {
      process.kill(pid, name)
    } catch {
      // It has ended meanwhile.
    }
  }
}

function childrenOf(parent) {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .filter(pid => {
      try {
        return Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[1]) === parent
      } catch {
        return false
      }
    })
    .map(Number)
}
