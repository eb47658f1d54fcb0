// Any role may notify any channel. What comes there is a hint: it makes a client look, and nothing else.
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Fencepost, Lock } from '../../src/index.ts'
import { Stage } from '../session/stage.ts'
import { until } from '../support/until.ts'
import { everyRow } from './support/sql.ts'

const stage = new Stage()
const warnings: Error[] = []
const onWarning = (warning: Error) => void warnings.push(warning)

/** Holds "mine", waits for "theirs". Its next look by itself is far away. */
let client: Fencepost
let channel: string
let mine: Lock
let theirs: Lock
let waiting: Promise<Lock>
let outcome: Lock | Error | undefined
beforeEach(async () => {
  process.on('warning', onWarning)
  // Straight to the server: behind a pooler nothing is heard.
  const options = { pool: stage.db.pool(), listen: true, poll: '60s' } as const
  theirs = await stage.client({ ...options, ttl: '60s' }).acquire('theirs')
  client = stage.client({ ...options, ttl: '60s' })
  mine = await client.acquire('mine')
  await until(async () => (await client.health()).waking === 'listening')
  outcome = undefined
  waiting = client.acquire('theirs')
  waiting.then(
    lock => {
      outcome = lock
    },
    error => {
      outcome = error
    },
  )
  await until(async () => (await client.query({ key: 'theirs' })).pending.length === 1)
  const [row] = await stage.sql<{ channel: string }>(
    `select s.channel from $schema.waiters w join $schema.sessions s on s.id = w.session`,
  )
  channel = row?.channel as string
  expect(channel).toMatch(/^fencepost /)
  // The full look with which listening began is over.
  await looked()
})
afterEach(() => {
  process.off('warning', onWarning)
  expect(warnings.splice(0)).toEqual([])
})

const ticks = () => client.metrics().batches.tick.count
const received = () => client.metrics().notifications.received

/** All in one go, and waits until the client has heard them all. */
async function forge(payloads: readonly string[]): Promise<void> {
  const before = received()
  await stage.db.query('select pg_notify($1, p) from unnest($2::text[]) p', [channel, payloads])
  await until(() => received() === before + payloads.length, { within: 25_000, what: 'all of it is heard' })
}

/** Looks and asks take turns, one in flight at a time: with the second answer all looks are over that were due. */
async function looked(): Promise<void> {
  for (let turn = 0; turn < 2; turn += 1) expect(await client.tryAcquire('theirs')).toBeNull()
}

async function expectNothingChanged(before: string): Promise<void> {
  await looked()
  expect(await everyRow(stage.db)).toBe(before)
  expect(outcome).toBeUndefined()
  expect([mine.state, mine.signal.aborted, mine.lossReason]).toEqual(['held', false, undefined])
  expect(theirs.state).toBe('held')
  const { held, pending, losses } = client.metrics()
  expect([held, pending, Object.values(losses)]).toEqual([1, 1, [0, 0, 0, 0]])
}

/** The line is as it was: who waits is next, by a release and by nothing else. */
async function expectLineMoves(): Promise<void> {
  const before = theirs.token
  expect(await theirs.release()).toBe('released')
  const next = await waiting
  expect(next.token).toBeGreaterThan(before)
  expect(mine.state).toBe('held')
  await mine.renew()
}

const forgeries: Record<string, readonly string[]> = {
  'a key that it waits for': ['["theirs"]'],
  'a key that it holds': ['["mine"]'],
  'both, twice': ['["mine","theirs","mine","theirs"]'],
  'keys that nobody knows': ['["unknown"]', '["another", ""]', '[]'],
  nothing: [''],
  'what is no JSON': ['garbage', '["theirs"', '{', "'; select 1; --", '\u0001\u2028', 'granted', 'probe 0.1'],
  'JSON of another shape': [
    '5',
    'null',
    'true',
    '"theirs"',
    '{"theirs": true}',
    '[5]',
    '[null]',
    '[["theirs"]]',
    '{"length": 1, "0": "theirs", "every": null}',
    '[{"toString": "theirs"}]',
    '1e999',
  ],
  'names of what every object has': [
    '["__proto__"]',
    '{"__proto__": ["theirs"]}',
    '["constructor", "hasOwnProperty"]',
    '[{"__proto__": {"polluted": true}}]',
  ],
  'as much as fits': [
    JSON.stringify(['x'.repeat(7_990)]),
    '語'.repeat(2_660),
    JSON.stringify(Array.from({ length: 1_300 }, (_, i) => i.toString(36))),
    '['.repeat(7_999),
    `${'['.repeat(3_999)}${']'.repeat(3_999)}`,
    'theirs'.repeat(1_300),
  ],
  'what reads like an answer': [
    JSON.stringify({ outcome: 'granted', key: 'theirs', token: '9' }),
    JSON.stringify([{ outcome: 'handed', key: 'theirs' }]),
    JSON.stringify({ outcome: 'dead' }),
  ],
}

test.each(Object.entries(forgeries))(
  '%s: nobody is granted, nobody loses, nothing is written',
  async (_, payloads) => {
    const before = await everyRow(stage.db)
    for (const payload of payloads) {
      await forge([payload])
      await expectNothingChanged(before)
    }
    await forge(payloads)
    await expectNothingChanged(before)
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
    await expectLineMoves()
  },
)

test('a hint makes it look, so that the tests above are about something', async () => {
  for (const payload of ['["theirs"]', '', 'garbage', '5']) {
    const before = ticks()
    await forge([payload])
    await until(() => ticks() > before)
  }
  const before = ticks()
  for (let i = 0; i < 10; i += 1) {
    await forge(['["mine"]', '["unknown"]'])
    await looked()
  }
  // But for what it does with each heartbeat.
  expect(ticks() - before).toBeLessThanOrEqual(2)
  await expectLineMoves()
})

test.each([
  ['that name the key', (i: number) => JSON.stringify(['theirs', String(i)])],
  ['that say nothing', (i: number) => `garbage ${i}`],
])('5,000 at once %s lead to few looks', async (_, payload) => {
  const before = await everyRow(stage.db)
  const count = ticks()
  const payloads = Array.from({ length: 5_000 }, (_, i) => payload(i))
  await forge(payloads)
  await expectNothingChanged(before)
  // One is in flight at a time, and what comes meanwhile is one more.
  expect(ticks() - count).toBeGreaterThan(0)
  expect(ticks() - count).toBeLessThan(1_000)
  await expectLineMoves()
})

// A work for each notification that grows with those before it would keep a process from its heartbeats.
test('what a flood costs does not grow with its own length', async () => {
  const flood = (first: string) =>
    Array.from({ length: 600 }, (_, i) =>
      JSON.stringify([first, ...Array.from({ length: 700 }, (_, k) => `${i} ${k}`)]),
    )
  /** Microseconds of this process, whatever else the machine does. */
  const cost = async (payloads: readonly string[]): Promise<number> => {
    const before = process.cpuUsage()
    await forge(payloads)
    await looked()
    const { user, system } = process.cpuUsage(before)
    return user + system
  }
  await cost(flood('unknown'))
  const passedOver = await cost(flood('unknown'))
  expect(await cost(flood('theirs'))).toBeLessThan(4 * passedOver)
  await expectLineMoves()
})
