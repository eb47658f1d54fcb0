// What a lock costs in calls, counted by a query function, which sees each of them.
import { describe, expect, test } from 'vitest'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { until } from '../support/until.ts'

describe('calls of the database', () => {
  const stage = new Stage(ways['a query function'])

  /** A client that has a session, and the calls that it makes from then on, by function. */
  async function counted() {
    const calls: string[] = []
    const { pool } = stage.way.options
    const query = (text: string, values: unknown[] = []) => {
      calls.push(String(values[0]))
      return (pool as { query: (text: string, values: unknown[]) => Promise<{ rows: unknown[] }> }).query(
        text,
        values,
      )
    }
    const client = stage.client({ pool: { query }, ttl: '30s', poll: '100ms' })
    await (await client.acquire('before')).release()
    await until(async () => (await stage.keysInUse()).length === 0)
    const since = calls.length
    return { client, calls: () => calls.slice(since) }
  }

  test('several keys that are free take one, and one to give them back', async () => {
    const { client, calls } = await counted()
    const lock = await client.acquire(['a', 'b', 'c'])
    expect(calls()).toEqual(['acquire'])
    await lock.release()
    expect(calls()).toEqual(['acquire', 'release'])
  })

  test('who waits and holds nothing is looked after, and not for circles', async () => {
    const [{ client, calls }, holder] = [await counted(), stage.client()]
    const lock = await holder.acquire('k')
    const waiting = client.acquire('k')
    await until(() => calls().filter(name => name === 'tick').length >= 3)
    expect(new Set(calls())).toEqual(new Set(['acquire', 'tick']))
    await lock.release()
    await (await waiting).release()
  })

  test('who waits inside a section is looked at for circles', async () => {
    const [{ client, calls }, holder] = [await counted(), stage.client()]
    const lock = await holder.acquire('k')
    const nested = client.withLock('outer', () => client.withLock('k', () => 'done'))
    await until(() => calls().includes('waits_for'))
    await lock.release()
    expect(await nested).toBe('done')
  })
})
