// The holder's half of the promise that it knows first, with a database that answers as the test says.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Beat } from '../../src/database/answers.ts'
import type { Calls } from '../../src/database/calls.ts'
import type { LossReason } from '../../src/errors.ts'
import { Knowledge } from '../../src/session/knowledge.ts'
import { Session, type SessionHost } from '../../src/session/session.ts'
import { until } from '../support/until.ts'

const ttl = 1_000
const span = ttl - 200
let beats: { sent: number; answer: (more?: Partial<Beat>) => void; fail: (error: Error) => void }[] = []
let ended: LossReason[] = []
let lost: LossReason[] = []
let given: string[] = []
let healthy = true
let session: Session
/** Milliseconds by which the monotonic clock is read as behind. */
let behind = 0

const real = performance.now.bind(performance)
const answered = (): Beat => ({
  renewed: true,
  boot: 'one',
  base: '0',
  serverTime: Date.now(),
  held: session.held.size,
  tokens: [...session.held.keys()].reduce((xor, token) => xor ^ BigInt(token), 0n),
  forced: [],
})

beforeEach(async () => {
  vi.spyOn(performance, 'now').mockImplementation(() => real() - behind)
  behind = 0
  beats = []
  ended = []
  lost = []
  given = []
  healthy = true
  const calls = {
    openSession: () => Promise.resolve({ generation: 1, boot: 'one', base: '0', serverTime: Date.now() }),
    heartbeat: () =>
      new Promise((resolve, reject) => {
        beats.push({
          sent: performance.now(),
          answer: more => resolve({ ...answered(), ...more }),
          fail: reject,
        })
      }),
    clockStepped: () => Promise.resolve(),
  } as unknown as Calls
  const host: SessionHost = {
    calls,
    knowledge: new Knowledge(),
    beatWire: { direct: true, isOpen: true, query: () => Promise.resolve([]) },
    onRenewed: () => {},
    onForced: (_, { key }, token) => void given.push(`${key} ${token}`),
    onOver: (_, reason) => void ended.push(reason),
    isHealthy: () => healthy,
  }
  session = new Session(host, ttl)
  await session.open(host.beatWire, 1_000, { owner: 'test', channel: undefined, info: '{}' })
  session.held.set('5', { key: 'k', ownToken: 'r', lose: reason => void lost.push(reason) })
})
afterEach(() => {
  session.end('shutdown')
  vi.restoreAllMocks()
})

const beat = async (n: number) => await until(() => beats[n - 1], { within: ttl })

test('a renewal is sent after a third of the ttl, and again a third after the sending of the one that was answered', async () => {
  const opened = real()
  const first = await beat(1)
  expect(first.sent - opened).toBeGreaterThan(ttl / 3 - 20)
  await until(() => real() - first.sent > 250)
  first.answer()
  const second = await beat(2)
  expect(second.sent - first.sent).toBeGreaterThan(ttl / 3 - 20)
  expect(second.sent - first.sent).toBeLessThan(ttl / 3 + 200)
})

test('trust counts from the sending, whenever the answer comes', async () => {
  const first = await beat(1)
  await until(() => real() - first.sent > 300)
  first.answer()
  await until(() => session.trust() === 'held' && session.remaining() > span - 400)
  expect(session.remaining()).toBeLessThanOrEqual(span - 300)
})

test('a renewal that fails is tried again soon, more than once, and nothing is lost by it', async () => {
  const first = await beat(1)
  first.fail(new Error('cut'))
  await until(() => session.trust() === 'degraded')
  const second = await beat(2)
  expect(second.sent - first.sent).toBeLessThan(ttl / 6)
  second.fail(new Error('cut'))
  ;(await beat(3)).answer()
  await until(() => session.trust() === 'held')
  expect([lost, ended]).toEqual([[], []])
})

test('all that is held is lost when trust ends, for it was unreachable', async () => {
  ;(await beat(1)).fail(new Error('cut'))
  await until(() => lost.length > 0)
  expect([lost, ended, session.lossReason]).toEqual([['unreachable'], ['unreachable'], 'unreachable'])
  expect([session.trust(), session.remaining(), session.held.size]).toEqual(['over', 0, 0])
})

test('a renewal that has not been answered when trust ends: unreachable', async () => {
  await beat(1)
  await until(() => lost.length > 0)
  expect(lost).toEqual(['unreachable'])
})

test('a renewal that is refused: expired, at once', async () => {
  ;(await beat(1)).answer({ renewed: false })
  await until(() => lost.length > 0, { within: 100 })
  expect([lost, ended]).toEqual([['expired'], ['expired']])
})

test('an answer that comes after the end changes nothing', async () => {
  const first = await beat(1)
  await until(() => lost.length > 0)
  first.answer()
  await new Promise(setImmediate)
  expect(session.trust()).toBe('over')
  expect(session.remaining()).toBe(0)
  expect([lost.length, ended.length]).toEqual([1, 1])
})

test('a process that was stopped past its trust with nothing in flight: expired', async () => {
  behind = -span
  expect(session.trust()).toBe('over')
  expect(lost).toEqual(['expired'])
})

test('the end of trust is announced though the timer fires early', async () => {
  // Timers count in whole milliseconds of a clock of their own, and may fire before ours says so.
  behind = 5
  await beat(1)
  await until(() => lost.length > 0, { within: ttl - ttl / 3 + 200 })
})

describe('the wall clock says that trust is over', () => {
  test.each([600_000, -600_000])(
    'by a step of %i ms: suspended, and a renewal is sent at once',
    async step => {
      const wall = Date.now.bind(Date)
      vi.spyOn(Date, 'now').mockImplementation(() => wall() + step)
      expect(session.trust()).toBe('suspended')
      expect(session.remaining()).toBe(0)
      await new Promise(setImmediate)
      expect(session.trust()).toBe('suspended')
      await new Promise(setImmediate)
      expect(beats).toHaveLength(1)
      beats[0]?.answer()
      await until(() => session.trust() === 'held')
      expect([lost, ended]).toEqual([[], []])
    },
  )

  test('and the renewal is refused: expired', async () => {
    const wall = Date.now.bind(Date)
    vi.spyOn(Date, 'now').mockImplementation(() => wall() + 600_000)
    expect(session.trust()).toBe('suspended')
    ;(await beat(1)).answer({ renewed: false })
    await until(() => lost.length > 0)
    expect(lost).toEqual(['expired'])
  })

  test('and the renewal fails: suspended until one is answered', async () => {
    const wall = Date.now.bind(Date)
    vi.spyOn(Date, 'now').mockImplementation(() => wall() + 600_000)
    expect(session.trust()).toBe('suspended')
    ;(await beat(1)).fail(new Error('cut'))
    const second = await beat(2)
    expect(session.trust()).toBe('suspended')
    second.answer()
    await until(() => session.trust() === 'held')
  })
})

test('an unhealthy process renews nothing and gives up', async () => {
  healthy = false
  await until(() => lost.length > 0)
  expect([lost, beats.length]).toEqual([['shutdown'], 0])
})

test('renew waits for the answer, and says why there was none', async () => {
  const first = session.renew('k')
  ;(await beat(1)).answer()
  await first
  const second = session.renew('k')
  ;(await beat(2)).fail(new Error('cut'))
  await expect(second).rejects.toMatchObject({ code: 'unreachable', message: 'the renewal failed: cut' })
  const third = session.renew('k')
  ;(await beat(3)).answer({ renewed: false })
  await expect(third).rejects.toMatchObject({ code: 'lost', reason: 'expired' })
})

test('a renewal that says what was forced is none for that', async () => {
  session.held.set('6', { key: 'other', ownToken: 's', lose: reason => void lost.push(reason) })
  const beating = session.beat()
  beats[0]?.answer({ forced: ['5'], held: 1, tokens: 6n })
  await beating
  expect(lost).toEqual(['forced'])
  expect(given).toEqual(['k 5'])
  expect([...session.held.keys()]).toEqual(['6'])
  expect(session.trust()).toBe('held')
  expect([session.lossReasonOf('5'), session.isForced('6')]).toEqual(['forced', false])
})
