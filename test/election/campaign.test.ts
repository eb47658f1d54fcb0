import { hostname } from 'node:os'
import { describe, expect, test } from 'vitest'
import { type Fencepost, LostError } from '../../src/index.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { until } from '../support/until.ts'

describe('a campaign', () => {
  const stage = new Stage(ways['a pool'])
  const election = (client: Fencepost = stage.client({ poll: 100 }), options = {}) =>
    client.election('e', options)

  test('elects one of several, and the next in line when that resigns', async () => {
    const candidates = [election(), election(), election()] as const
    const [first, second, third] = candidates
    const term = await first.campaign()
    const next = second.campaign()
    await stage.queued('e', 1)
    const last = third.campaign()
    await stage.queued('e', 2)
    expect(candidates.map(({ isLeader }) => isLeader)).toEqual([true, false, false])
    expect(await first.resign()).toBe('released')
    const following = await next
    expect(following.token).toBeGreaterThan(term.token)
    expect(candidates.map(({ isLeader }) => isLeader)).toEqual([false, true, false])
    expect([term.signal.aborted, following.signal.aborted]).toEqual([true, false])
    await second.resign()
    expect((await last).token).toBeGreaterThan(following.token)
  })

  test('is a candidate of its own for each object, in one process, too', async () => {
    const client = stage.client()
    const [one, other] = [election(client), election(client)]
    expect(one.identity).not.toBe(other.identity)
    expect(one.identity).not.toContain(hostname())
    await one.campaign()
    const waiting = other.campaign()
    await stage.queued('e', 1)
    expect(await one.leader()).toMatchObject({ identity: one.identity })
    await one.resign()
    await waiting
    expect([one.isLeader, other.isLeader]).toEqual([false, true])
    expect(await one.leader()).toMatchObject({ identity: other.identity })
  })

  test('one object campaigns or leads once at a time', async () => {
    const [leader, candidate] = [election(), election()]
    await leader.campaign()
    const refused = { code: 'already_campaigning' }
    await expect(leader.campaign()).rejects.toMatchObject(refused)
    await expect(leader.lead(() => {})).rejects.toMatchObject(refused)
    const waiting = candidate.campaign()
    await expect(candidate.campaign()).rejects.toMatchObject(refused)
    await leader.resign()
    await waiting
    expect(candidate.isLeader).toBe(true)
    const again = leader.campaign({ timeout: 0 })
    await expect(again).rejects.toMatchObject({ code: 'timed_out' })
  })

  test('is given up by its signal or its timeout, and leaves the line', async () => {
    const [leader, candidate] = [election(), election()]
    await leader.campaign()
    const controller = new AbortController()
    const waiting = candidate.campaign({ signal: controller.signal })
    await stage.queued('e', 1)
    controller.abort(new Error('enough'))
    await expect(waiting).rejects.toMatchObject({ code: 'aborted', cause: controller.signal.reason })
    await expect(candidate.campaign({ timeout: 50 })).rejects.toMatchObject({ code: 'timed_out' })
    expect(await stage.waiting('e')).toBe(0)
    expect([leader.isLeader, candidate.isLeader]).toEqual([true, false])
  })

  test('a candidate whose session died while it was in line never wakes up elected', async () => {
    const dying = stage.client({ ttl: '2s', poll: 100 })
    const [leader, candidate, other] = [election(), election(dying), election()]
    await leader.campaign()
    const waiting = candidate.campaign()
    await stage.queued('e', 1)
    const lost = expect(waiting).rejects.toMatchObject({ code: 'lost', reason: 'expired' })
    await stage.bury(dying)
    await leader.resign()
    await lost
    expect(candidate.isLeader).toBe(false)
    expect(await candidate.leader()).toBeNull()
    const term = await other.campaign({ timeout: '5s' })
    expect(term.signal.aborted).toBe(false)
  })

  test('is refused under a key that somebody holds by hand, and that is nobody elected', async () => {
    const client = stage.client()
    const lock = await client.acquire('e')
    expect(await election().leader()).toBeNull()
    await expect(election().campaign({ timeout: 0 })).rejects.toMatchObject({ code: 'timed_out' })
    await lock.release()
    await election(client).campaign()
  })

  test('closing while it is in line: the campaign ends, and nothing is left', async () => {
    const closing = stage.client()
    await election().campaign()
    const waiting = election(closing).campaign()
    await stage.queued('e', 1)
    const rejected = expect(waiting).rejects.toMatchObject({ code: 'closed' })
    await closing.close()
    await rejected
    expect(await stage.waiting('e')).toBe(0)
    await expect(election(closing).campaign()).rejects.toMatchObject({ code: 'closed' })
  })
})

describe('a term', () => {
  const stage = new Stage(ways['a pool'])

  test('is the exclusive lock of its key, in the client’s namespace, with who it is in its metadata', async () => {
    const client = stage.client({ namespace: 'app' })
    const election = client.election('e', { value: { url: 'http://here' }, ttl: '7s' })
    const term = await election.campaign()
    const { held } = await client.query({ key: 'e' })
    expect(held).toMatchObject([
      {
        key: 'app:e',
        mode: 'exclusive',
        token: term.token,
        metadata: { identity: election.identity, value: { url: 'http://here' } },
      },
    ])
    const sessions = await stage.db.query(`select from ${stage.sql('sessions')} where ttl = '7s'`)
    expect(sessions).toHaveLength(1)
  })

  test('writes under it commit, and none of a term that is over, though its candidate leads again', async () => {
    const pool = stage.db.pool()
    await pool.query('create table written (token bigint)')
    const election = stage.client().election('e')
    const write = (token: bigint) => ({
      text: 'insert into written values ($1)',
      values: [String(token)],
    })
    const first = await election.campaign()
    await first.transaction(async client => {
      await client.query(write(first.token).text, write(first.token).values)
    })
    await election.resign()
    const second = await election.campaign()
    expect(election.isLeader).toBe(true)
    await expect(first.transaction(() => {})).rejects.toMatchObject({ code: 'not_held' })
    const client = await pool.connect()
    try {
      await client.query('begin')
      await second.guard(client)
      await client.query(write(second.token).text, write(second.token).values)
      await client.query('commit')
    } finally {
      client.release()
    }
    const rows = await stage.db.query<{ token: string }>('select token from written order by token')
    expect(rows.map(({ token }) => BigInt(token))).toEqual([first.token, second.token])
    await expect(first.guard(pool)).rejects.toMatchObject({ code: 'not_held' })
  })

  test('isLeader is false before the resignation is sent, and before the signal tells of it', async () => {
    const pool = stage.db.pool({ connectionString: stage.db.twistedUrl })
    const sent: boolean[] = []
    const query = (text: string, values: unknown[] = []) => {
      if (values[0] === 'release') sent.push(election.isLeader)
      return pool.query(text, values)
    }
    const client = stage.client(
      {},
      { options: { pool: { query }, schema: stage.db.schema }, opensItsOwn: false },
    )
    const election = client.election('e')
    const told: boolean[] = []
    const { signal } = await election.campaign()
    signal.addEventListener('abort', () => told.push(election.isLeader))
    expect(election.isLeader).toBe(true)
    const resigned = election.resign()
    expect(election.isLeader).toBe(false)
    expect(await resigned).toBe('released')
    expect({ sent, told }).toEqual({ sent: [false], told: [false] })
    expect(signal.reason).toMatchObject({ code: 'not_held' })
  })

  test('isLeader compares the clock at that moment, before any timer has fired', async () => {
    const election = stage.client().election('e', { ttl: 2_000 })
    const { signal } = await election.campaign()
    expect(election.isLeader).toBe(true)
    // This thread and all its timers stand still.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_100)
    expect(election.isLeader).toBe(false)
    expect(signal.reason).toBeInstanceOf(LostError)
    expect(['expired', 'unreachable']).toContain(await election.resign())
  })

  test('resigning what one does not lead changes nothing', async () => {
    const [leader, other] = [stage.client().election('e'), stage.client().election('e')]
    expect(await other.resign()).toBe('already')
    await leader.campaign()
    expect(await other.resign()).toBe('already')
    expect(leader.isLeader).toBe(true)
    expect([await leader.resign(), await leader.resign()]).toEqual(['released', 'already'])
  })

  test('that an operator takes is lost, with the reason, and the next in line leads', async () => {
    const clients = [stage.client({ ttl: '2s', poll: 100 }), stage.client({ poll: 100 })] as const
    const [leader, other] = [clients[0].election('e'), clients[1].election('e')]
    const { token, signal } = await leader.campaign()
    const next = other.campaign()
    await stage.queued('e', 1)
    await clients[1].forceRelease('e', { reason: 'a test' })
    await until(() => signal.aborted)
    expect(signal.reason).toMatchObject({ code: 'lost', reason: 'forced' })
    expect(leader.isLeader).toBe(false)
    expect((await next).token).toBeGreaterThan(token)
    expect(await leader.resign()).toBe('forced')
  })

  test('that is lost can be campaigned for again: another term, with a higher token', async () => {
    const client = stage.client({ ttl: '2s', poll: 100 })
    const election = client.election('e')
    const first = await election.campaign()
    await stage.bury(client)
    await until(() => first.signal.aborted)
    expect(election.isLeader).toBe(false)
    const second = await election.campaign()
    expect(second.token).toBeGreaterThan(first.token)
    expect(election.isLeader).toBe(true)
  })

  test('a client that closes tells it so while it is still held', async () => {
    const client = stage.client()
    const election = client.election('e')
    const { signal, lock } = await election.campaign()
    const held: string[] = []
    signal.addEventListener('abort', () => held.push(lock.state))
    await client.close()
    expect(held).toEqual(['held'])
    expect(signal.reason).toMatchObject({ code: 'lost', reason: 'shutdown' })
    expect(election.isLeader).toBe(false)
  })
})
