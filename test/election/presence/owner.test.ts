// Presence as its owner sees it: what the session's trust is worth from the sending of the first word to an answered withdrawal.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Connection } from '../../../src/database/connection.ts'
import { BrokenConnection } from '../../../src/database/failure.ts'
import type { PresenceHost } from '../../../src/election/presence/host.ts'
import { Owner } from '../../../src/election/presence/owner.ts'
import type { Session } from '../../../src/session/session.ts'
import { until } from '../../support/until.ts'

const grace = 1_000

/** A call that is answered when the test says so. */
class Calls<T> {
  readonly made: { args: unknown[]; answer(value: T): void; fail(error: unknown): void }[] = []
  /** What answers by itself. */
  always: (() => T) | undefined

  readonly call = (...args: unknown[]): Promise<T> => {
    const { always } = this
    return new Promise((answer, fail) => {
      this.made.push({ args, answer, fail })
      if (always) answer(always())
    })
  }

  get last() {
    return this.made.at(-1) as (typeof this.made)[number]
  }
}

let pings: Calls<boolean>
let shows: Calls<boolean>
let withdrawals: Calls<boolean>
let waking: 'listening' | 'polling' | 'connecting'
let warned: string[]
let connections: (Connection & { isOpen: boolean })[]
let owner: Owner
let beats: number

function connection(): Connection {
  const made = {
    isOpen: true,
    direct: true,
    onClose: (_: unknown) => {},
    isOurs: () => pings.call(),
    end: async () => {
      if (!made.isOpen) return
      made.isOpen = false
      made.onClose(undefined)
    },
  } as unknown as Connection & { isOpen: boolean }
  connections.push(made)
  return made
}

function begin(): void {
  const host = {
    calls: { show: (...args: unknown[]) => shows.call(...args) },
    knowledge: { witness: () => ({}) },
    waking: () => waking,
    connect: async () => connection(),
    withdraw: (...args: unknown[]) => withdrawals.call(...args),
    warn: (why: string) => warned.push(why),
  } as unknown as PresenceHost
  const session = {
    id: 's',
    boundMoved: () => {},
    beat: async () => {
      beats += 1
    },
  } as unknown as Session
  owner = new Owner(session, grace, host, () => {})
}

beforeEach(() => {
  pings = new Calls()
  pings.always = () => true
  shows = new Calls()
  withdrawals = new Calls()
  waking = 'listening'
  warned = []
  connections = []
  beats = 0
  begin()
})
afterEach(() => owner.stop())

const shown = async () => {
  await until(() => shows.made.length === 1)
  shows.last.answer(true)
  const { length } = pings.made
  await until(() => pings.made.length > length + 1)
}

describe('trust', () => {
  test('is not shortened before it is shown, and is from the sending on, answered or not', async () => {
    expect(owner.trust).toBeUndefined()
    await until(() => shows.made.length === 1)
    expect(owner.trust?.span).toBe(grace - 200)
    const { since } = owner.trust ?? {}
    expect(since?.monotonic).toBeLessThanOrEqual(performance.now())
    expect(shows.last.args[2]).toEqual({ session: 's', generation: 1, grace })
  })

  test('is extended by what is answered on the connection, from its sending', async () => {
    await shown()
    const first = owner.trust?.since.monotonic as number
    await until(() => (owner.trust?.since.monotonic as number) > first)
    // One that is not answered extends nothing.
    pings.always = undefined
    const { length } = pings.made
    await until(() => pings.made.length > length)
    const sent = performance.now()
    const before = owner.trust?.since.monotonic as number
    pings.last.answer(true)
    await until(() => (owner.trust?.since.monotonic as number) > before)
    expect(owner.trust?.since.monotonic).toBeLessThanOrEqual(sent)
  })

  test('stays as short as it is until a withdrawal is answered', async () => {
    await shown()
    await connections[0]?.end()
    expect(owner.isFailing).toBe(true)
    await until(() => withdrawals.made.length === 1)
    expect(withdrawals.last.args).toEqual(['s', 2])
    const { since } = owner.trust ?? {}
    withdrawals.last.fail(new Error('no answer'))
    await until(() => withdrawals.made.length === 2)
    expect(withdrawals.last.args).toEqual(['s', 2])
    expect(owner.trust?.since).toBe(since)
    withdrawals.last.answer(true)
    await until(() => owner.trust === undefined)
    expect(owner.isFailing).toBe(false)
  })

  test('stays short where the session is said to be over: a heartbeat is to tell', async () => {
    await shown()
    await connections[0]?.end()
    withdrawals.last.answer(false)
    await until(() => beats === 1)
    expect(owner.trust).toBeDefined()
  })

  test('is the ttl’s alone where the server has refused to show it', async () => {
    await until(() => shows.made.length === 1)
    shows.last.fail(Object.assign(new Error('no such function'), { code: '42883', severity: 'ERROR' }))
    await until(() => owner.trust === undefined)
    expect(warned).toEqual(['no such function'])
    expect(withdrawals.made).toEqual([])
  })

  test('stays short where it is not known whether it is shown, until it is withdrawn', async () => {
    await until(() => shows.made.length === 1)
    shows.last.fail(new BrokenConnection(true, new Error('reset')))
    await until(() => withdrawals.made.length === 1)
    expect(owner.trust).toBeDefined()
    expect(withdrawals.last.args).toEqual(['s', 2])
  })
})

describe('presence is withdrawn', () => {
  test('when a ping is late, and shown again on another connection, under a higher number', async () => {
    await shown()
    pings.always = undefined
    await until(() => withdrawals.made.length === 1)
    expect(connections.length).toBe(1)
    pings.always = () => true
    pings.last.answer(true)
    withdrawals.last.answer(true)
    await until(() => shows.made.length === 2)
    expect(connections.map(({ isOpen }) => isOpen)).toEqual([false, true])
    expect(shows.last.args[2]).toMatchObject({ generation: 3 })
  })

  test('when the answer to its showing is late', async () => {
    await until(() => shows.made.length === 1)
    await until(() => withdrawals.made.length === 1)
    expect(withdrawals.last.args).toEqual(['s', 2])
    // What is answered after that is not believed any more.
    withdrawals.last.answer(true)
    await until(() => owner.trust === undefined)
    shows.last.answer(true)
    await until(() => shows.made.length === 2)
    expect(shows.last.args[2]).toMatchObject({ generation: 3 })
  })

  test('when another process of the server answers, and a warning says that the ttl rules', async () => {
    await shown()
    pings.always = () => false
    await until(() => withdrawals.made.length === 1)
    await until(() => warned.length === 1)
    expect(connections.map(({ isOpen }) => isOpen)).toEqual([false])
  })

  test('before anything is shown on another connection', async () => {
    await shown()
    await connections[0]?.end()
    await until(() => withdrawals.made.length === 1)
    withdrawals.last.fail(new Error('no answer'))
    await until(() => withdrawals.made.length === 2)
    expect(connections.length).toBe(1)
    withdrawals.last.answer(true)
    await until(() => connections.length === 2)
  })
})

test('it is shown only when two pings in a row were answered in time', async () => {
  owner.stop()
  shows = new Calls()
  pings = new Calls()
  begin()
  for (let i = 1; i <= 2; i += 1) {
    await until(() => pings.made.length === i)
    expect(shows.made).toEqual([])
    pings.last.answer(true)
  }
  await until(() => shows.made.length === 1)
})

test('an answer that was there before the timer, after a stall, is not late', async () => {
  await shown()
  const { length } = pings.made
  // The timer of a ping that is in flight, and its answer, come in one turn of the loop.
  pings.always = undefined
  await until(() => pings.made.length > length)
  const { last } = pings
  pings.always = () => true
  setImmediate(() => last.answer(true))
  for (const end = performance.now() + grace / 2; performance.now() < end; );
  await until(() => pings.made.length > length + 3)
  expect(withdrawals.made).toEqual([])
})

test('without a straight way nothing is shown, and a warning says so', async () => {
  owner.stop()
  shows = new Calls()
  waking = 'polling'
  begin()
  await until(() => warned.length === 1)
  expect([owner.trust, shows.made]).toEqual([undefined, []])
})

test('a refresh is a ping at once, and settles when the session is over', async () => {
  await shown()
  pings.always = undefined
  const { length } = pings.made
  const refreshed = owner.refresh()
  await until(() => pings.made.length > length)
  owner.stop()
  await refreshed
  expect(owner.trust).toBeUndefined()
})
