import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { now } from '../../src/session/clock.ts'
import { Knowledge } from '../../src/session/knowledge.ts'

let clock = 1_000
beforeEach(() => {
  clock = 1_000
  vi.spyOn(performance, 'now').mockImplementation(() => clock)
  vi.spyOn(Date, 'now').mockImplementation(() => 1_700_000_000_000 + clock)
})
afterEach(() => vi.restoreAllMocks())

const server = (ms: number) => 50_000 + ms
const answer = (more: { base?: string; boot?: string; serverTime?: number } = {}) => ({
  base: '10',
  boot: 'one',
  serverTime: server(clock),
  ...more,
})

test('before the first answer nothing is claimed', () => {
  expect(new Knowledge().witness()).toEqual({ base: '0', serverTime: undefined, elapsed: 0 })
})

test('the witness carries the highest base, the last server time, and the time since by the monotonic clock', () => {
  const knowledge = new Knowledge()
  knowledge.learn(answer({ base: String(2n ** 60n) }), now())
  clock += 250
  expect(knowledge.witness()).toEqual({ base: String(2n ** 60n), serverTime: server(1_000), elapsed: 250 })
  knowledge.learn(answer({ base: '7' }), now())
  expect(knowledge.witness()).toEqual({ base: String(2n ** 60n), serverTime: server(1_250), elapsed: 0 })
})

test('a new life of the server is told once, and not of the first', () => {
  const knowledge = new Knowledge()
  const learned: boolean[] = []
  for (const boot of ['one', 'one', 'other', 'other'])
    learned.push(knowledge.learn(answer({ boot }), now()).reborn)
  expect(learned).toEqual([false, false, true, false])
  expect(knowledge.boot).toBe('other')
})

test('a step of the server’s clock is told, and the witness stays in doubt, until the grace for it is there', () => {
  const knowledge = new Knowledge()
  knowledge.learn(answer(), now())
  const first = server(clock)
  const learn = (by: number) => {
    clock += 1_000
    return knowledge.learn(answer({ serverTime: server(clock) + by }), now()).stepped
  }
  expect([learn(0), learn(600_000), learn(600_000)]).toEqual([false, true, true])
  expect(knowledge.witness()).toMatchObject({ serverTime: first + 1_000, elapsed: 2_000 })
  knowledge.graced()
  expect(knowledge.witness()).toMatchObject({ serverTime: server(clock) + 600_000, elapsed: 0 })
  expect([learn(600_000), learn(600_000)]).toEqual([false, false])
})

test('a grace that nothing called for changes nothing', () => {
  const knowledge = new Knowledge()
  knowledge.learn(answer(), now())
  const before = knowledge.witness()
  knowledge.graced()
  expect(knowledge.witness()).toEqual(before)
})

test('another server’s clock is another clock: no step', () => {
  const knowledge = new Knowledge()
  knowledge.learn(answer(), now())
  expect(knowledge.learn(answer({ boot: 'other', serverTime: 5 }), now())).toEqual({
    reborn: true,
    stepped: false,
  })
})
