// Who leads by the database's record, by the API and by the SQL function.
import { randomUUID } from 'node:crypto'
import { escapeIdentifier } from 'pg'
import { describe, expect, test } from 'vitest'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { until } from '../support/until.ts'

describe.each(['a pool', 'a query function'] as const)('leader(), over %s', way => {
  const stage = new Stage(ways[way])

  /** What the SQL function says, whether its time is over or not. */
  const record = async (key = 'e') =>
    (
      await stage.db.query<{ token: string; expires_in: number }>(
        `select * from ${stage.sql('leader')}($1)`,
        [key],
      )
    )[0]

  test('names who leads, also where others of the same process are right behind', async () => {
    const [client, holder] = [stage.client(), stage.client().election('e')]
    await holder.campaign()
    const candidates = [client.election('e'), client.election('e'), client.election('e')]
    const campaigns = candidates.map(candidate => candidate.campaign())
    await stage.queued('e', 3)
    await holder.resign()
    for (const [i, candidate] of candidates.entries()) {
      const { token } = await (campaigns[i] as (typeof campaigns)[0])
      expect(await stage.db.query(`select from ${stage.sql('waiters')} where token is not null`)).toEqual([])
      expect(await candidate.leader()).toMatchObject({ identity: candidate.identity, token })
      await candidate.resign()
    }
  })

  test('tells who leads, since when, under which token, renewed when, and what it says of itself', async () => {
    const client = stage.client({ ttl: '9s' })
    const election = client.election('e', { value: { url: 'http://here', n: [1, null, 'ü'] } })
    expect(await election.leader()).toBeNull()
    const before = Date.now()
    const { token, lock } = await election.campaign()
    const asked = await stage.client().election('e').leader()
    expect(asked).toEqual({
      identity: election.identity,
      value: { url: 'http://here', n: [1, null, 'ü'] },
      token,
      since: expect.any(Date),
      renewedAt: expect.any(Date),
      ttl: 9_000,
      owner: stage.ownerOf(client),
    })
    // Of one machine, whose clock is the server's as well.
    expect(Math.abs(Number(asked?.since) - before)).toBeLessThan(5_000)
    expect(Math.abs(Number(asked?.renewedAt) - before)).toBeLessThan(5_000)
    await lock.renew()
    const later = await election.leader()
    expect(Number(later?.renewedAt)).toBeGreaterThan(Number(asked?.renewedAt))
    expect(later?.since).toEqual(asked?.since)
  })

  test('of a namespace tells its own', async () => {
    const inside = stage.client({ namespace: 'app' }).election('e')
    await inside.campaign()
    expect(await stage.client().election('e').leader()).toBeNull()
    expect(await stage.client().election('app:e').leader()).toMatchObject({ identity: inside.identity })
  })

  test('tells of nobody who was elected by nobody: a lock by hand, readers, permits', async () => {
    const client = stage.client()
    const lock = await client.acquire('e', { metadata: { identity: 5 } })
    expect(await record()).toBeUndefined()
    await lock.release()
    const identity = randomUUID()
    const shared = await client.acquire('e', { mode: 'shared', metadata: { identity } })
    expect(await record()).toBeUndefined()
    await shared.release()
    await (await client.semaphore('s', { permits: 2 }).acquire({ metadata: { identity } })).release()
    expect(await record('s')).toBeUndefined()
    await stage.db.query(`delete from ${stage.sql('locks')}`)
  })

  test('tells of nobody who has resigned, also while a guard is still open under it', async () => {
    const election = stage.client().election('e')
    const term = await election.campaign()
    const pool = stage.db.pool()
    const guarding = await pool.connect()
    await guarding.query('begin')
    await term.guard(guarding)
    await election.resign()
    expect(await stage.db.query(`select released from ${stage.sql('locks')}`)).toEqual([{ released: true }])
    expect(await record()).toBeUndefined()
    await guarding.query('rollback')
    guarding.release()
  })

  test('tells of nobody whose session is dead, or has expired; the record has that one until it is buried', async () => {
    const dying = stage.client({ ttl: '30s' })
    const election = dying.election('e')
    const { token } = await election.campaign()
    const other = stage.client().election('e')
    await stage.expire(dying)
    expect(await other.leader()).toBeNull()
    expect(await record()).toMatchObject({ token: String(token), expires_in: 0 })
    await stage.bury(dying)
    expect(await record()).toBeUndefined()
    expect(await other.leader()).toBeNull()
  })

  test('tells who was taken by hand until it knows, and then who is next', async () => {
    const [one, other] = [stage.client({ ttl: '2s', poll: 100 }), stage.client({ poll: 100 })]
    const [leader, next] = [one.election('e'), other.election('e')]
    await leader.campaign()
    const waiting = next.campaign()
    await stage.queued('e', 1)
    expect(await next.leader()).toMatchObject({ identity: leader.identity })
    await other.forceRelease('e', { reason: 'a test' })
    await waiting
    expect(await leader.leader()).toMatchObject({ identity: next.identity })
  })

  test('while the database is gone, says so', async () => {
    const client = stage.client({ schema: 'elsewhere' })
    await expect(client.election('e').leader()).rejects.toMatchObject({ code: 'not_migrated' })
    const closed = stage.client()
    await closed.close()
    await expect(closed.election('e').leader()).rejects.toMatchObject({ code: 'closed' })
  })
})

describe('the look-up', () => {
  const stage = new Stage(ways['a pool'])

  test('is a probe of an index in each of the two tables, whatever the statistics say', async () => {
    const election = stage.client().election('e')
    await election.campaign()
    const schema = escapeIdentifier(stage.db.schema)
    const lines = `select relname, seq_scan::int, seq_tup_read::int, idx_scan::int, idx_tup_fetch::int
                     from pg_stat_xact_user_tables where schemaname = $1 and seq_scan + idx_scan > 0 order by relname`
    const pool = stage.db.pool({ max: 1 })
    for (const statistics of ['of an empty table', 'of a full one', 'of one that is empty again']) {
      if (statistics === 'of a full one') {
        await stage.db.query(
          `insert into ${schema}.locks (key, token) select 'filler ' || i, 0 from generate_series(1, 5000) i`,
        )
        await stage.db.query(
          `insert into ${schema}.sessions (id, ttl, expires_at, died)
           select gen_random_uuid(), '1s', 'infinity', clock_timestamp() from generate_series(1, 5000) i`,
        )
      }
      if (statistics === 'of one that is empty again') {
        await stage.db.query(`delete from ${schema}.locks where key like 'filler %'`)
        await stage.db.query(`delete from ${schema}.sessions where died is not null`)
      }
      await stage.db.query(`analyze ${schema}.locks; analyze ${schema}.sessions`)
      const client = await pool.connect()
      try {
        await client.query('begin')
        const { rows } = await client.query(`select identity from ${schema}.leader('e')`)
        expect(rows).toEqual([{ identity: election.identity }])
        const counted = await client.query(lines, [stage.db.schema])
        const probe = { seq_scan: 0, seq_tup_read: 0, idx_scan: 1, idx_tup_fetch: 1 }
        expect({ statistics, rows: counted.rows }).toEqual({
          statistics,
          rows: [
            { relname: 'locks', ...probe },
            { relname: 'sessions', ...probe },
          ],
        })
        await client.query('rollback')
      } finally {
        // What a connection has counted before is counted with it.
        client.release(true)
      }
    }
    expect(await until(() => election.leader())).toMatchObject({ identity: election.identity })
  })
})
