// The pauses of a leader that throws, and of a campaign that fails, by a clock that the test moves.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Leading } from '../../src/election/leading.ts'
import type { Term } from '../../src/election/term.ts'
import { QueueFullError, UnreachableError } from '../../src/index.ts'
import type { Lock } from '../../src/lock/lock.ts'

let campaigns = 0
let begun = 0
/** What the next campaign does. */
let campaign: (run: () => Promise<void>) => Promise<void>
let callback: () => Promise<void>
let stop: AbortController
let wasReached: boolean

beforeEach(() => {
  vi.useFakeTimers()
  campaigns = 0
  begun = 0
  campaign = run => run()
  callback = async () => {
    throw new Error('again')
  }
  stop = new AbortController()
  wasReached = true
})
afterEach(() => void vi.useRealTimers())

/** A term of which nothing is needed but that it begins and ends. */
function term(): Term {
  const { signal } = new AbortController()
  return { signal, stop() {}, finish: async () => 'released' } as unknown as Term
}

function lead(): Promise<void> {
  const host = {
    key: 'e',
    closing: new AbortController().signal,
    hold: (_: AbortSignal, section: (lock: Lock) => unknown) => {
      campaigns += 1
      return campaign(async () => void (await section({} as Lock)))
    },
    begin: async () => {
      begun += 1
      return term()
    },
    wasReached: () => wasReached,
  }
  return new Leading(host, () => callback(), { signal: stop.signal, onError: () => {} }).run()
}

/** To just after the next campaign. */
async function next(): Promise<void> {
  const before = campaigns
  while (campaigns === before) await vi.advanceTimersToNextTimerAsync()
}

/** That the pause before the next campaign is as long. */
async function expectPause(least: number, most: number): Promise<void> {
  const since = performance.now()
  await next()
  expect(performance.now() - since).toBeGreaterThanOrEqual(least)
  expect(performance.now() - since).toBeLessThanOrEqual(most)
}

test('a callback that throws pauses from a quarter of a second on, twice as long each time, up to half a minute', async () => {
  const leading = lead()
  await vi.advanceTimersByTimeAsync(0)
  for (let pause = 500; pause < 30_000; pause *= 2) await expectPause(pause / 2, pause)
  for (let i = 0; i < 3; i++) await expectPause(15_000, 30_000)
  stop.abort()
  await leading
})

test('how long a pause is, up to half of it, is chance; its end is not waited for', async () => {
  const random = vi.spyOn(Math, 'random').mockReturnValueOnce(0).mockReturnValueOnce(1)
  const leading = lead()
  await vi.advanceTimersByTimeAsync(0)
  await expectPause(250, 250)
  await expectPause(1_000, 1_000)
  random.mockRestore()
  expect(vi.getTimerCount()).toBe(1)
  stop.abort()
  await leading
  expect(vi.getTimerCount()).toBe(0)
})

test('one that has led for half a minute, or has ended by itself, begins anew', async () => {
  const leading = lead()
  await vi.advanceTimersByTimeAsync(0)
  for (let i = 0; i < 6; i++) await next()
  callback = async () => {
    await new Promise(resolve => setTimeout(resolve, 30_000))
    throw new Error('late')
  }
  await next()
  await vi.advanceTimersByTimeAsync(30_000)
  await expectPause(250, 500)
  stop.abort()
  await vi.advanceTimersByTimeAsync(30_000)
  await leading
})

test('a campaign that fails is repeated, while that may do better', async () => {
  campaign = () => Promise.reject(new QueueFullError('e', 5))
  const leading = lead()
  await vi.advanceTimersByTimeAsync(0)
  await expectPause(50, 100)
  campaign = () => Promise.reject(new UnreachableError('away'))
  await next()
  await next()
  const thrown = expect(leading).rejects.toMatchObject({ code: 'unreachable' })
  wasReached = false
  await vi.advanceTimersByTimeAsync(2_000)
  await thrown
})

test('a grant that meets the end is no term', async () => {
  campaign = run => {
    stop.abort()
    return run()
  }
  await lead()
  expect([campaigns, begun]).toEqual([1, 0])
})
