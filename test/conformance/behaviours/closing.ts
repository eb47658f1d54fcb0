import { expect, test } from 'vitest'
import { ClosedError, LostError } from '../../../src/index.ts'
import { twist } from '../../support/twist.ts'
import { until } from '../../support/until.ts'
import { Gate } from '../gate.ts'
import type { Stage } from '../stage.ts'

export function closing(stage: Stage): void {
  test('refuses what is new, and rejects who waits', async () => {
    const [holder, client] = [stage.client(), stage.client()]
    const lock = await holder.acquire('k')
    const waiter = client.acquire('k')
    waiter.catch(() => {})
    await stage.queued('k', 1)
    const closed = client.close()
    const refused = await Promise.allSettled([
      waiter,
      client.acquire('other'),
      client.tryAcquire('other'),
      client.withLock('other', () => 'ran'),
    ])
    for (const each of refused) {
      expect(each).toMatchObject({ status: 'rejected', reason: { code: 'closed' } })
      expect((each as PromiseRejectedResult).reason).toBeInstanceOf(ClosedError)
    }
    await closed
    await expect(client.acquire('k')).rejects.toThrow(ClosedError)
    expect(await stage.waiting('k')).toBe(0)
    await lock.release()
  })

  test('gives back what is held, and tells its holders', async () => {
    const [client, other] = [stage.client(), stage.client()]
    const locks = await Promise.all([client.acquire('a'), client.acquire('b')])
    const waiter = other.acquire('a')
    await stage.queued('a', 1)
    const { signal } = locks[0]
    await client.close()
    for (const lock of locks) {
      expect([lock.state, lock.lossReason]).toEqual(['lost', 'shutdown'])
      expect(await lock.release()).toBe('shutdown')
    }
    expect(signal.aborted).toBe(true)
    expect(signal.reason).toBeInstanceOf(LostError)
    expect(signal.reason).toMatchObject({ reason: 'shutdown', key: stage.named('a') })
    expect((await other.tryAcquire('b'))?.state).toBe('held')
    expect((await waiter).state).toBe('held')
  })

  test('waits for the sections that run, under their locks', async () => {
    const [client, other] = [stage.client(), stage.client()]
    const gate = new Gate()
    const inside = new Gate()
    const section = client.withLock('k', async lock => {
      inside.open()
      await gate.opened
      return [lock.signal.aborted, lock.state]
    })
    await inside.opened
    let isClosed = false
    const closed = client.close({ timeout: '1m' }).then(() => {
      isClosed = true
    })
    expect(await other.tryAcquire('k')).toBeNull()
    expect(isClosed).toBe(false)
    gate.open()
    expect(await section).toEqual([true, 'held'])
    await closed
    expect((await other.tryAcquire('k'))?.state).toBe('held')
  })

  test('waits for a section no longer than it is told to', async () => {
    const [client, other] = [stage.client(), stage.client()]
    const gate = new Gate()
    const inside = new Gate()
    const section = client.withLock('k', async () => {
      inside.open()
      await gate.opened
      return 'too late'
    })
    await inside.opened
    await client.close({ timeout: 30 })
    expect((await other.tryAcquire('k'))?.state).toBe('held')
    gate.open()
    await expect(section).rejects.toMatchObject({ code: 'lost', reason: 'shutdown' })
  })

  test('leaves nothing of an acquire that was just asked for', async () => {
    const client = stage.client()
    await (await client.acquire('warm')).release()
    for (let turns = 0; turns < 4; turns++) {
      const closing = stage.client()
      const acquiring = closing.acquire('k')
      acquiring.catch(() => {})
      for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
      await closing.close()
      await expect(acquiring).rejects.toThrow(ClosedError)
      expect(await stage.holders('k')).toEqual([])
    }
  })

  test('a second close waits for the first; one that was never used closes, too', async () => {
    const client = stage.client()
    await client.acquire('k')
    const order: string[] = []
    const first = client.close().then(() => order.push('first'))
    const second = client.close().then(() => order.push('second'))
    await Promise.all([first, second])
    expect(order).toEqual(['first', 'second'])
    await client.close()
    const unused = stage.client()
    await unused[Symbol.asyncDispose]()
    await expect(unused.acquire('k')).rejects.toThrow(ClosedError)
  })

  // A pooler keeps its own connections to the server.
  test.skipIf(twist.name === 'pgbouncer')('ends the connections that it opened', async () => {
    const connections = async () => {
      const rows = await stage.db.query<{ name: string }>(
        `select application_name as name from pg_stat_activity
          where datname = current_database() and application_name like 'fencepost %' order by 1`,
      )
      return rows.map(({ name }) => name)
    }
    await until(async () => (await connections()).length === 0)
    const client = stage.client()
    const lock = await client.acquire('k')
    await lock.renew()
    await lock.release()
    const opened = ['fencepost ask', 'fencepost beat', 'fencepost return'].filter(name =>
      stage.way.opensItsOwn ? true : name === 'fencepost beat' && stage.way.options.listen,
    )
    await until(async () => (await connections()).join() === opened.join())
    expect(await connections()).toEqual(opened)
    await client.close()
    await until(async () => (await connections()).length === 0)
  })
}
