// The client's account and the database's differ: settled both ways, by the next heartbeat.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { Stage } from './stage.ts'

const stage = new Stage()
const ttl = 2_400

const keys = async () =>
  (await stage.sql<{ key: string }>('select key from $schema.locks order by key')).map(row => row.key)

/** A grant in the name of the one session that there is, as from an acquire whose answer nobody got. */
async function insertBehindItsBack(key: string): Promise<void> {
  await stage.sql(
    `insert into $schema.locks (key, session, request, token)
     select $1, s.id, $2, c.base + nextval('$schema.fencing')
       from $schema.sessions s, $schema.cluster c where s.died is null`,
    [key, randomUUID()],
  )
}

test('a row that it does not know is released by its token', async () => {
  const lock = await stage.client({ ttl }).acquire('known')
  await insertBehindItsBack('unknown')
  expect(await keys()).toEqual(['known', 'unknown'])
  await until(async () => (await keys()).join() === 'known', { within: 2 * ttl })
  expect(lock.state).toBe('held')
  expect(lock.signal.aborted).toBe(false)
})

test('a row that it does not know goes to the next in line', async () => {
  const [client, other] = [stage.client({ ttl }), stage.client({ ttl: '30s' })]
  const lock = await client.acquire('known')
  await insertBehindItsBack('unknown')
  const granted = await other.acquire('unknown', { timeout: '5s' })
  expect(granted.state).toBe('held')
  expect(lock.state).toBe('held')
})

test('a row that is gone is a lock that is lost, and only that one', async () => {
  const client = stage.client({ ttl })
  const [gone, kept] = await Promise.all([client.acquire('gone'), client.acquire('kept')])
  await stage.sql(`delete from $schema.locks where key = 'gone'`)
  await until(() => gone.state === 'lost', { within: 2 * ttl })
  expect(gone.lossReason).toBe('expired')
  expect(gone.signal.aborted).toBe(true)
  expect(await gone.release()).toBe('expired')
  expect([kept.state, kept.signal.aborted]).toEqual(['held', false])
  expect(await keys()).toEqual(['kept'])
})

test('a row that another holds by now is a lock that is lost, and the other keeps it', async () => {
  const [client, other] = [stage.client({ ttl }), stage.client({ ttl: '30s' })]
  const lock = await client.acquire('key')
  await stage.sql('delete from $schema.locks')
  const theirs = await other.acquire('key')
  await until(() => lock.state === 'lost', { within: 2 * ttl })
  expect(await lock.release()).toBe('expired')
  expect(theirs.state).toBe('held')
  expect(await stage.sql('select token from $schema.locks')).toEqual([{ token: String(theirs.token) }])
})

test('two that differ at once are both settled, though the count agrees', async () => {
  const client = stage.client({ ttl })
  const lock = await client.acquire('gone')
  const kept = await client.acquire('kept')
  await insertBehindItsBack('unknown')
  await stage.sql(`delete from $schema.locks where key = 'gone'`)
  await until(() => lock.state === 'lost', { within: 2 * ttl })
  await until(async () => (await keys()).join() === 'kept', { within: 2 * ttl })
  expect(kept.state).toBe('held')
})

test('what is being asked for, released or waited for at that moment is left alone', async () => {
  const client = stage.client({ ttl })
  const kept = await client.acquire('kept')
  await insertBehindItsBack('unknown')
  // Churn around the settling: none of these may be taken for a stranger, or for lost.
  let rounds = 0
  let settled = false
  const churn = async (key: string) => {
    while (!settled) {
      const lock = await client.acquire(key)
      if (lock.state !== 'held') throw new Error(`${key} is ${lock.state}`)
      if ((await lock.release()) !== 'released') throw new Error(`${key} was lost`)
      rounds++
    }
  }
  const churning = Promise.all(['a', 'b', 'c', 'c', 'c'].map(churn))
  await until(async () => !(await keys()).includes('unknown'), { within: 2 * ttl })
  settled = true
  await churning
  expect(rounds).toBeGreaterThan(5)
  expect(kept.state).toBe('held')
})

test('one heartbeat renews all that a process holds under one ttl', async () => {
  const client = stage.client({ ttl })
  const locks = await Promise.all(Array.from({ length: 50 }, (_, i) => client.acquire(`key ${i}`)))
  const sessions = async () =>
    await stage.sql<{ id: string; expires_at: Date }>(
      'select id, expires_at from $schema.sessions where died is null',
    )
  const [before, ...others] = await sessions()
  expect(others).toEqual([])
  await until(async () => {
    const [now] = await sessions()
    return Number(now?.expires_at) > Number(before?.expires_at) + ttl
  })
  expect(new Set(locks.map(lock => lock.state))).toEqual(new Set(['held']))
  await client.acquire('another', { ttl: '5s' })
  expect(await sessions()).toHaveLength(2)
})
