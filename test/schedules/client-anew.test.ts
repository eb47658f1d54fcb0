// A process whose callers want a key again and again: it is given back and asked for anew in one call, while nobody else wants
// it, and in two where others do. What if that call is lost on its way, or its reply?
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Fencepost, Lock } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { Clients } from './support/clients.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
let clients: Clients
let key: string
let calls: string[]
beforeAll(async () => {
  stage = await Stage.create()
  clients = new Clients(stage)
})
beforeEach(() => {
  key = stage.key()
  calls = []
})
afterEach(() => clients.end())
afterAll(() => stage.drop())

/** Notes each statement of Fencepost's own connections. */
class Noted extends pg.Client {
  // biome-ignore lint/suspicious/noExplicitAny: the driver's overloads
  override query(...args: any[]): any {
    calls.push(String(args[0]?.name))
    // biome-ignore lint/suspicious/noExplicitAny: the driver's overloads
    return (super.query as any)(...args)
  }
}
const noted = () => ({ Client: Noted }) as unknown as pg.PoolConfig
/** By the name of its statement, which says what it is given: session, keys, tokens, seen, own, generation and requests. */
const anew = 'fencepost_release_and_notify_sktsogr'

interface Turn {
  readonly caller: number
  readonly token: string
}

/** So many callers of a client that take the key and give it back, round after round; the tokens in the order of the turns. */
async function roundAndRound(fp: Fencepost, callers: number, rounds: number): Promise<Turn[]> {
  const turns: Turn[] = []
  let inside = 0
  const one = async (caller: number) => {
    for (let round = 0; round < rounds; round += 1) {
      const lock = await fp.acquire(key)
      inside += 1
      expect([inside, lock.state]).toEqual([1, 'held'])
      turns.push({ caller, token: lock.ownToken })
      inside -= 1
      expect(await lock.release()).toBe('released')
    }
  }
  await Promise.all(Array.from({ length: callers }, (_, caller) => one(caller)))
  return turns
}

const rising = (turns: readonly Turn[]) =>
  turns.every(({ token }, i) => i === 0 || BigInt(token) > BigInt(turns[i - 1]?.token as string))

test('nobody else wants it: a call a round', async () => {
  const fp = clients.direct({ pool: stage.db.pool(noted()), poll: '60s' })
  await clients.ready(fp)
  await roundAndRound(fp, 5, 3)
  calls = []
  const turns = await roundAndRound(fp, 5, 20)
  expect([turns.length, rising(turns)]).toEqual([100, true])
  expect(calls.filter(call => call === anew).length).toBeGreaterThan(10)
  expect(calls.filter(call => /acquire|release/.test(call)).length).toBeLessThan(40)
  // Whoever had the last turn of a run is not behind all the others for good.
  const half = turns.slice(0, 50)
  for (let caller = 0; caller < 5; caller += 1) {
    expect(half.filter(turn => turn.caller === caller).length).toBeGreaterThan(7)
  }
  expect(await stage.lock(key)).toBeUndefined()
})

/** Three of `fp` have their turns, with somebody behind them, and ask again. What they have asked for, and who has it next. */
async function turnsOfThree(fp: Fencepost, others: Fencepost) {
  const before = await others.acquire(key)
  const asked = await inLine(fp, 3)
  const [theirs] = (await inLine(others, 1)) as [Promise<Lock>]
  const { count, sum } = fp.metrics().batches.acquire
  await before.release()
  const again = asked.map(async lock => {
    await (await lock).release()
    return fp.acquire(key)
  })
  const next = await theirs
  await until(async () => (await stage.line(key)).length === 3)
  const batches = fp.metrics().batches.acquire
  await next.release()
  for (const lock of again) await (await lock).release()
  return { calls: batches.count - count, requests: batches.sum - sum }
}

test('another process wants it, too: it is handed over first, and all of ours are in line side by side', async () => {
  const [fp, others] = [clients.direct({ poll: '60s' }), clients.direct({ poll: '60s' })]
  // That others want it is known by the answer of the first hand-over.
  await turnsOfThree(fp, others)
  expect(await turnsOfThree(fp, others)).toEqual({ calls: 1, requests: 3 })
})

/** So many requests of a client, in line one behind the other. */
async function inLine(fp: Fencepost, count: number): Promise<Promise<Lock>[]> {
  const asked: Promise<Lock>[] = []
  const before = (await stage.line(key)).length
  for (let i = 1; i <= count; i += 1) {
    asked.push(fp.acquire(key))
    await until(async () => (await stage.line(key)).length === before + i)
  }
  return asked
}

test.each(['lost on its way', 'done, and its reply is lost'])(
  'the call is %s: nobody is, and nothing is left',
  async how => {
    const { fp, proxy } = await clients.proxied({ poll: '300ms' })
    await clients.ready(fp)
    await roundAndRound(fp, 4, 3)
    const isAnew = (request: string) => request.includes(anew)
    const struck = how === 'lost on its way' ? proxy.dropRequest(isAnew) : proxy.dropReplyAfter(isAnew)
    const [turns] = await Promise.all([roundAndRound(fp, 4, 25), struck])
    expect([turns.length, rising(turns)]).toEqual([100, true])
    await until(async () => (await stage.lock(key)) === undefined)
    expect(await stage.line(key)).toEqual([])
  },
)

test('who gives up while the call is in flight has no turn', async () => {
  const { fp, proxy } = await clients.proxied({ poll: '300ms' })
  await clients.ready(fp)
  await roundAndRound(fp, 4, 3)
  const lock = await fp.acquire(key)
  const giveUp = new AbortController()
  const [first, second, third] = [
    fp.acquire(key, { signal: giveUp.signal }),
    fp.acquire(key),
    fp.acquire(key, { signal: giveUp.signal }),
  ]
  for (const one of [first, third]) one.catch(() => {})
  const { token } = lock
  // Late, not held: it may stand behind another call on its connection.
  proxy.delay(2_000, 'toClient')
  const released = lock.release()
  await until(async () => (await stage.lock(key))?.token !== token)
  giveUp.abort()
  proxy.release()
  expect(await released).toBe('released')
  for (const one of [first, third]) await expect(one).rejects.toMatchObject({ code: 'aborted' })
  const next = await second
  expect(next.state).toBe('held')
  await next.release()
  await until(async () => (await stage.lock(key)) === undefined)
})
