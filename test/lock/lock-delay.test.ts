import { describe, expect, test } from 'vitest'
import { Gate } from '../conformance/gate.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { until } from '../support/until.ts'

describe('a lock delay', () => {
  const stage = new Stage(ways['a pool'])
  const long = { lockDelay: '10m' } as const

  /** Milliseconds that a key still rests by the database; undefined: it does not. */
  async function rest(key = 'k'): Promise<number | undefined> {
    const [row] = await stage.db.query<{ ms: number | null }>(
      `select extract(epoch from rests_until - clock_timestamp())::float8 * 1000 as ms
         from ${stage.sql('locks')} where key = $1 and session is null`,
      [key],
    )
    return row?.ms ?? undefined
  }

  /** As if so long had passed. */
  const wake = (key = 'k') =>
    stage.db.query(
      `update ${stage.sql('locks')} set rests_until = clock_timestamp() - interval '1 ms' where key = $1`,
      [key],
    )

  /** Ends the rest; who acquires the key finds it free, and leaves nothing of it. */
  async function clear(key = 'k'): Promise<void> {
    await wake(key)
    await (await stage.client().acquire(key)).release()
  }

  async function rests(key = 'k'): Promise<void> {
    const ms = await until(() => rest(key), { what: `${key} rests` })
    expect(ms).toBeGreaterThan(500_000)
    expect(ms).toBeLessThanOrEqual(600_000)
  }

  test('after an expiry the key rests; who waits has it right after', async () => {
    const [dying, waiter] = [stage.client(), stage.client()]
    await dying.acquire('k', long)
    const granted = waiter.acquire('k')
    await stage.queued('k', 1)
    await stage.expire(dying)
    await rests()
    expect(await waiter.tryAcquire('k', { mode: 'shared' })).toBeNull()
    expect([await stage.waiting('k'), await stage.holders('k')]).toEqual([1, []])
    await wake()
    expect((await granted).state).toBe('held')
    // The rest was the lost holder's: this one did not ask for any.
    await stage.expire(waiter)
    expect((await until(() => stage.client().tryAcquire('k'))).state).toBe('held')
  })

  test('newcomers of every kind stand in line meanwhile, and tries are refused', async () => {
    const [dying, client] = [stage.client(), stage.client()]
    await dying.acquire('k', long)
    await stage.expire(dying)
    await until(async () => {
      expect(await client.tryAcquire('k')).toBeNull()
      return await rest()
    })
    expect(await client.tryAcquire(['k', 'l'])).toBeNull()
    expect(await client.tryAcquire('k', { mode: 'shared' })).toBeNull()
    expect((await client.tryAcquire('l'))?.state).toBe('held')
    const waiters = [client.acquire('k', { mode: 'shared' }), client.acquire('k'), client.acquire(['k', 'm'])]
    await stage.queued('k', 3)
    await rests()
    await wake()
    await Promise.all(waiters.map(async waiter => (await waiter).release()))
    expect(await rest()).toBeUndefined()
  })

  test('once its time is up, and nobody did anything, who waits has it', async () => {
    const [dying, waiter] = [stage.client(), stage.client()]
    await dying.acquire('k', { lockDelay: '2s' })
    const granted = waiter.acquire('k')
    await stage.queued('k', 1)
    await stage.expire(dying)
    const ms = await until(() => rest(), { what: 'k rests' })
    expect(ms).toBeLessThanOrEqual(2_000)
    expect((await granted).state).toBe('held')
    expect(await rest()).toBeUndefined()
  })

  test('not after a release, nor after a close', async () => {
    const [one, other] = [stage.client(), stage.client()]
    await (await one.acquire('k', long)).release()
    expect((await other.tryAcquire('k'))?.state).toBe('held')
    await one.acquire('l', long)
    const waiter = other.acquire('l')
    await stage.queued('l', 1)
    await one.close()
    expect((await waiter).state).toBe('held')
  })

  test('after a close that a section has outlasted', async () => {
    const client = stage.client()
    const [inside, gate] = [new Gate(), new Gate()]
    const section = client.withLock('k', long, async () => {
      inside.open()
      await gate.opened
    })
    section.catch(() => {})
    await inside.opened
    await client.close({ timeout: 20 })
    await rests()
    gate.open()
    await clear()
  })

  test('a process that was unhealthy for a whole ttl: what runs there may not have stopped', async () => {
    const client = stage.client({ ttl: '1s', healthy: () => false })
    const lock = await client.acquire('k', long)
    await until(() => lock.state === 'lost')
    expect(lock.lossReason).toBe('shutdown')
    await rests()
    await clear()
  })

  test('not after one that was granted later, to who asked for none', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const lock = await one.acquire('k', long)
    const next = other.acquire('k')
    await stage.queued('k', 1)
    await lock.release()
    await next
    await stage.expire(other)
    expect((await until(() => stage.client().tryAcquire('k'))).state).toBe('held')
  })

  test('of one that was granted in line; forced at once it rests as well', async () => {
    const [holder, client] = [stage.client(), stage.client()]
    const lock = await holder.acquire('k')
    const granted = client.acquire('k', long)
    await stage.queued('k', 1)
    await lock.release()
    const held = await granted
    await holder.forceRelease('k', { reason: 'a test', now: true })
    await rests()
    await held.renew().catch(() => {})
    expect([held.state, await held.release()]).toEqual(['lost', 'forced'])
    await rests()
    await clear()
  })

  test.each([
    ['nobody in line', false],
    ['somebody in line', true],
  ])('forced, and given back once its holder was told, with %s: it rests as well', async (_, isWaited) => {
    const [holder, other] = [stage.client(), stage.client()]
    const lock = await holder.acquire('k', long)
    const next = isWaited ? other.acquire('k') : undefined
    next?.catch(() => {})
    if (isWaited) await stage.queued('k', 1)
    await other.forceRelease('k', { reason: 'a test' })
    await lock.renew().catch(() => {})
    expect([lock.state, await lock.release()]).toEqual(['lost', 'forced'])
    await rests()
    await wake('k')
    await (await (next ?? other.acquire('k'))).release()
  })

  test('a session that was given up because it could not be renewed: it rests', async () => {
    const client = stage.client({ ttl: '1s' })
    const lock = await client.acquire('k', long)
    const { signal } = lock
    // Nobody renews it: the session's own row is locked against it.
    const pool = stage.db.pool({ max: 1 })
    const blocker = await pool.connect()
    await blocker.query('begin')
    await blocker.query(`select from ${stage.sql('sessions')} where owner = $1 for update`, [
      stage.ownerOf(client),
    ])
    await until(() => signal.aborted)
    expect(lock.lossReason).toBe('unreachable')
    await blocker.query('rollback')
    blocker.release()
    await rests()
    await clear()
  })

  test('nobody waits: once it has rested the row goes', async () => {
    const [dying, other] = [stage.client(), stage.client({ ttl: '1s' })]
    await other.acquire('another')
    await dying.acquire('k', long)
    await stage.expire(dying)
    await rests()
    await wake()
    await until(async () => !(await stage.keysInUse()).includes('k'))
  })

  test('a guard that is open keeps the key, and it rests from the loss on', async () => {
    const [dying, other] = [stage.client(), stage.client()]
    const lock = await dying.acquire('k', long)
    const [gate, inside] = [new Gate(), new Gate()]
    const transaction = lock.transaction(async () => {
      inside.open()
      await gate.opened
      return 'committed'
    })
    await inside.opened
    const waiter = other.acquire('k')
    await stage.queued('k', 1)
    await stage.expire(dying)
    await until(async () => {
      const [row] = await stage.db.query<{ released: boolean }>(
        `select released from ${stage.sql('locks')} where key = 'k'`,
      )
      return row?.released
    })
    gate.open()
    expect(await transaction).toBe('committed')
    await rests()
    await wake()
    expect((await waiter).state).toBe('held')
  })

  test('of several keys each rests, one that was lost alone takes none of the others along', async () => {
    const [dying, other] = [stage.client(), stage.client()]
    await dying.acquire(['a', 'b'], long)
    await stage.expire(dying)
    await until(() => other.tryAcquire('x'))
    await rests('a')
    await rests('b')
    await wake('a')
    await wake('b')
    const lock = await other.acquire(['a', 'b'])
    expect(lock.state).toBe('held')
  })

  test('only an exclusive lock has one', async () => {
    const client = stage.client()
    await expect(client.acquire('k', { mode: 'shared', lockDelay: '1s' })).rejects.toMatchObject({
      code: 'bad_option',
    })
    const lock = await client.acquire('k', long)
    await lock.downgrade()
    await stage.expire(client)
    expect((await until(() => stage.client().tryAcquire('k'))).state).toBe('held')
  })
})
