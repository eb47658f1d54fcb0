import { getEventListeners } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Fencepost, type Leader } from '../../src/index.ts'
import { Stage } from '../conformance/stage.ts'
import { timersOf } from '../conformance/timers.ts'
import { ways } from '../conformance/ways.ts'
import { startProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'

const poll = 200

/** Reads an observer to its end, and keeps what it shows. */
class Reader {
  readonly shown: (Leader | null)[] = []
  isOver = false
  readonly ended: Promise<void>

  constructor(observer: AsyncIterable<Leader | null>) {
    this.ended = this.#read(observer)
  }

  get tokens(): (bigint | null)[] {
    return this.shown.map(leader => leader?.token ?? null)
  }

  async #read(observer: AsyncIterable<Leader | null>): Promise<void> {
    for await (const leader of observer) this.shown.push(leader)
    this.isOver = true
  }
}

describe.each(['a pool', 'a query function'] as const)('observe, over %s', way => {
  const stage = new Stage(ways[way])
  const client = (options = {}) => stage.client({ poll, ...options })

  test('shows who leads, each term once, and each vacancy', async () => {
    const observer = client()
    const [one, other] = [client().election('e', { value: 'one' }), client().election('e')]
    const reader = new Reader(observer.election('e').observe())
    await until(() => reader.shown.length === 1)
    const first = await one.campaign()
    await until(() => reader.shown.length === 2)
    await one.resign()
    await until(() => reader.shown.length === 3)
    const second = await other.campaign()
    await until(() => reader.shown.length === 4)
    const third = one.campaign()
    await stage.queued('e', 1)
    await other.resign()
    const { token } = await third
    await until(() => reader.shown.length === 5)
    expect(reader.tokens).toEqual([null, first.token, null, second.token, token])
    expect(reader.shown[1]).toMatchObject({ identity: one.identity, value: 'one', ttl: 30_000 })
    expect(reader.shown[4]).toMatchObject({ identity: one.identity })
    expect(reader.shown[3]).toMatchObject({ identity: other.identity, value: null })
  })

  test('shows at once who leads when it begins', async () => {
    const { token } = await client().election('e').campaign()
    const observer = client().election('e').observe()
    expect(await observer.next()).toMatchObject({ done: false, value: { token } })
    await observer.return?.()
  })

  test('misses nothing that lasts longer than the poll interval, though it is read late', async () => {
    const observer = client().election('e').observe()
    expect(await observer.next()).toEqual({ done: false, value: null })
    const election = client().election('e')
    const expected: (bigint | null)[] = []
    for (let i = 0; i < 3; i++) {
      const { token } = await election.campaign()
      expected.push(token, null)
      await pause(poll * 2.5)
      await election.resign()
      await pause(poll * 2.5)
    }
    const read: (bigint | null)[] = []
    while (read.length < expected.length) {
      const { value } = await observer.next()
      read.push(value?.token ?? null)
    }
    expect(read).toEqual(expected)
    await observer.return?.()
  })

  test('shows a vacancy once a leader that died without an heir has not renewed for its ttl', async () => {
    const dead = client({ ttl: '1s' })
    const { token } = await dead.election('e').campaign()
    const reader = new Reader(client().election('e').observe())
    await until(() => reader.shown.length === 1)
    // As if the process were gone: nobody renews, and nobody else is there who would bury it.
    await stage.db.query(
      `update ${stage.sql('sessions')} set expires_at = expires_at - interval '1 day' where owner = $1`,
      [stage.ownerOf(dead)],
    )
    await until(() => reader.shown.length === 2)
    expect(reader.tokens).toEqual([token, null])
  })

  test.each(['return', 'signal', 'close'] as const)(
    'ends by %s: a read that waits as well, and no timer stays',
    async by => {
      const timers = timersOf('src/election/observer')
      const observing = client()
      const controller = new AbortController()
      const observer = observing.election('e').observe({ signal: controller.signal })
      await observer.next()
      const waiting = observer.next()
      if (by === 'return') await observer.return?.()
      else if (by === 'signal') controller.abort()
      else await observing.close()
      expect(await waiting).toEqual({ done: true, value: undefined })
      expect(await observer.next()).toEqual({ done: true, value: undefined })
      expect(await timers.alive()).toEqual([])
      expect(getEventListeners(controller.signal, 'abort')).toEqual([])
    },
  )

  test('a loop that is left ends it', async () => {
    const timers = timersOf('src/election/observer')
    for await (const leader of client().election('e').observe()) {
      expect(leader).toBeNull()
      break
    }
    expect(await timers.alive()).toEqual([])
  })

  test('what is aborted, or of a client that is closed, ends before it has looked', async () => {
    const closed = client()
    await closed.close()
    const over = { done: true, value: undefined }
    expect(await closed.election('e').observe().next()).toEqual(over)
    expect(await client().election('e').observe({ signal: AbortSignal.abort() }).next()).toEqual(over)
  })

  test('two reads at once get one thing each, in order', async () => {
    const observer = client().election('e').observe()
    const [first, second] = [observer.next(), observer.next()]
    expect((await first).value).toBeNull()
    const { token } = await client().election('e').campaign()
    expect((await second).value).toMatchObject({ token })
    await observer.return?.()
  })

  test('without the schema it fails, once', async () => {
    const observer = client({ schema: 'elsewhere' }).election('e').observe()
    await expect(observer.next()).rejects.toMatchObject({ code: 'not_migrated' })
    expect(await observer.next()).toEqual({ done: true, value: undefined })
  })
})

describe('the database is away', () => {
  const stage = new Stage(ways['a pool'])

  test('an observer goes on when it is back, and has shown nothing that was not so', async () => {
    const proxy = await startProxy(stage.db.twistedUrl)
    const observing = new Fencepost({
      connectionString: proxy.url(stage.db.twistedUrl),
      schema: stage.db.schema,
      poll,
    })
    onTestFinished(async () => {
      await observing.close()
      await proxy.close()
    })
    const [one, other] = [stage.client({ poll }).election('e'), stage.client({ poll }).election('e')]
    const first = await one.campaign()
    const reader = new Reader(observing.election('e').observe())
    await until(() => reader.shown.length === 1)
    await proxy.accept(false)
    proxy.cut()
    await one.resign()
    const second = await other.campaign()
    await expect(observing.election('e').leader()).rejects.toMatchObject({ code: 'unreachable' })
    expect(reader.tokens).toEqual([first.token])
    await proxy.accept(true)
    await until(() => reader.shown.length === 2)
    expect(reader.tokens).toEqual([first.token, second.token])
    expect(reader.isOver).toBe(false)
  })

  test('one that was never answered says so', async () => {
    const nowhere = stage.client(
      {},
      { options: { connectionString: 'postgres://127.0.0.1:1/x' }, opensItsOwn: true },
    )
    const observer = nowhere.election('e').observe()
    await expect(observer.next()).rejects.toMatchObject({ code: 'unreachable' })
    expect((await observer.next()).done).toBe(true)
  })
})
