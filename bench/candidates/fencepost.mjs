import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { monotonic } from '../harness/clock.mjs'
import { Refusal } from '../harness/refusal.mjs'
import { packageVersion } from '../peers/support/peer.mjs'

const build = process.env.FENCEPOST_BUILD ?? new URL('../../dist/index.js', import.meta.url).href
const { Fencepost } = await import(build).catch(cause => {
  throw new Refusal(`cannot load ${build}: ${cause.message}`)
})
const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))

/** What leaders write, under the guard of their term: so numbers are drawn in the order of the commits. */
const TABLE = `create table led (
  number   bigint generated always as identity primary key,
  election text not null,
  token    bigint not null,
  identity text not null,
  since    double precision
)`

const WRITE = `insert into led (election, token, identity, since)
  values ($1, $2, $3, (select extract(epoch from l.since) * 1000 from fencepost.leader($1) l))`

const STANDING = `select (select count(*) from fencepost.waiters where key = $1)
  + (select count(*) from fencepost.leader($1)) as standing`

const SINCE = 'select since from led where election = $1 and token = $2 order by number limit 1'

const ACCOUNT = `with writes as (
    select token < max(token) over (partition by election order by number) as late,
           identity <> first_value(identity) over (partition by election, token order by number) as of_another
      from led
  )
  select (select count(distinct (election, token)) from led) as terms, count(*) as writes,
         count(*) filter (where late or of_another) as beside
    from writes`

/** @type {any} */
let election

/** @type {import('../harness/candidate.mjs').Candidate} */
export const candidate = {
  name: 'fencepost',
  version: `fencepost ${version}, pg ${packageVersion('pg')}`,
  settings: 'defaults; writes by term.transaction',
  needs: 'postgres',
  stand({ url, election: name, ttl, takeover, every }, tells) {
    const pool = new pg.Pool({ connectionString: url, max: 2 })
    // Connections are cut under it.
    pool.on('error', () => {})
    const fp = new Fencepost({ pool })
    fp.closeOnSignals()
    election = fp.election(name, { ttl, takeover })
    const lead = async (/** @type {any} */ term) => {
      const token = String(term.token)
      tells.elected(token)
      if (every === undefined) return await until(term.signal)
      while (!term.signal.aborted) {
        const began = monotonic()
        try {
          const row = [name, token, election.identity]
          await term.transaction((/** @type {any} */ client) => client.query(WRITE, row))
          tells.wrote({ token, began })
        } catch {
          // Cut, or too late: what lasts is told by the term's signal.
        }
        await pause(every, undefined, { signal: term.signal }).catch(() => {})
      }
    }
    const stand = async () => {
      for (let isOver = false; !isOver; ) {
        isOver = await election.lead(lead).then(
          () => true,
          (/** @type {any} */ error) => {
            // A first connection that gets no answer in time is taken for a wrong address.
            if (error.code !== 'unreachable') throw error
            return false
          },
        )
      }
    }
    stand().catch(error => {
      console.error('a candidate has ended:', error)
      process.exit(1)
    })
  },
  isLeader: () => election.isLeader,
  async resign() {
    await election.resign()
  },
}

/** @param {AbortSignal} signal */
const until = signal =>
  new Promise(resolve => {
    if (signal.aborted) resolve(undefined)
    else signal.addEventListener('abort', resolve)
  })

/**
 * @param {string} url of a new database
 * @returns {Promise<import('../harness/candidate.mjs').Record>}
 */
export async function openRecord(url) {
  const migrating = new Fencepost({ connectionString: url })
  await migrating.migrate()
  await migrating.close()
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  // The server may end before the record, where the bench is interrupted.
  pool.on('error', () => {})
  await pool.query(TABLE)
  return {
    async standing(name) {
      return Number((await pool.query(STANDING, [name])).rows[0].standing)
    },
    async since(name, token) {
      return (await pool.query(SINCE, [name, token])).rows[0]?.since ?? Number.NaN
    },
    async account() {
      const [row] = (await pool.query(ACCOUNT)).rows
      return { terms: Number(row.terms), writes: Number(row.writes), beside: Number(row.beside) }
    },
    end: () => pool.end(),
  }
}
