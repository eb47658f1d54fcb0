import { randomUUID } from 'node:crypto'
import { sleep } from '../history.mjs'

/** The protected data at the end. */
export async function tables(cluster) {
  return {
    counters: await cluster.query('select * from data.counters'),
    ledger: await cluster.query('select * from data.ledger'),
  }
}

/** Buries whom nobody else is left to bury, and counts what is there after that. A semaphore's head stays for ever. */
export async function leftovers(cluster) {
  const session = randomUUID()
  await cluster.query("select fencepost.open_session($1, '3s')", [session])
  for (let i = 0; i < 5; i++) {
    await cluster.query('select fencepost.heartbeat($1)', [session])
    await cluster.query('select fencepost.tick($1)', [session])
    await sleep(1_050)
    const [row] = await cluster.query('select count(*)::int as n from fencepost.sessions')
    if (row.n === 1) break
  }
  await cluster.query('select fencepost.close_session($1)', [session])
  const [row] = await cluster.query(`
    select (select count(*)::int from fencepost.locks where mode is distinct from 'permits') as locks,
           (select count(*)::int from fencepost.locks where mode = 'permits' and released) as "marked heads",
           (select count(*)::int from fencepost.holders) as holders,
           (select count(*)::int from fencepost.waiters) as waiters,
           (select count(*)::int from fencepost.sessions) as sessions,
           (select count(*)::int from pg_locks where locktype = 'advisory') as "advisory locks",
           (select count(*)::int from pg_stat_activity
             where backend_type = 'client backend' and pid <> pg_backend_pid()) as connections`)
  return row
}
