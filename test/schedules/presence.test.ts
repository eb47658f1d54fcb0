// Presence: who is gone is buried before its ttl has run out, by its connection, its generation and its row; nobody else is.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import { until } from '../support/until.ts'
import type { Actor, Seen } from './support/actor.ts'
import { incarnation } from './support/incarnation.ts'
import { Stage } from './support/stage.ts'

interface Peer {
  readonly peer: string
  readonly generation: string
  readonly grace: number
  readonly absent: boolean
  readonly holds: boolean
}

let stage: Stage
let key: string
let leader: Actor
let waiter: Actor

beforeAll(async () => {
  stage = await Stage.create()
})
beforeEach(async () => {
  key = stage.key()
  leader = await stage.actor('leader')
  waiter = await stage.actor('waiter')
  await leader.acquire(key)
  await waiter.acquire(key)
  await grownUp()
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

/** As if this life of the server had begun long ago. */
async function grownUp(seconds = 3_600): Promise<void> {
  await stage.sql(`update $schema.cluster set since = clock_timestamp() - $1 * interval '1 s'`, [seconds])
}

async function show(on: Actor, generation: number, of = leader, grace = '3s'): Promise<boolean> {
  const [row] = await on.sql('select $schema.show_presence($1, $2, $3) as shown', [
    of.session,
    generation,
    grace,
  ])
  return row?.shown
}

async function withdraw(on: Actor, generation: number): Promise<boolean> {
  const values = [leader.session, generation]
  const [row] = await on.sql('select $schema.withdraw_presence($1, $2) as withdrawn', values)
  return row?.withdrawn
}

async function probe(on = waiter): Promise<Peer[]> {
  const rows = await on.sql('select * from $schema.probe_presence($1, $2)', [on.session, key])
  return rows as Peer[]
}

/** Who holds the key, as it is told of. */
const holder = async (on?: Actor) => (await probe(on)).find(({ holds }) => holds)

async function reap(peer: Pick<Peer, 'peer' | 'generation'>, on = waiter, seen?: Seen): Promise<boolean> {
  const row = seen && `(,${seen.serverTime ?? ''},${seen.elapsed ?? ''})`
  const [answer] = await on.sql('select $schema.reap_absent($1, $2, $3, $4) as reaped', [
    key,
    peer.peer,
    peer.generation,
    row ?? null,
  ])
  return answer?.reaped
}

/** Ends a connection, and waits until the server has noticed. */
async function vanish(actor: Actor): Promise<void> {
  await actor.end()
  await until(async () => {
    const rows = await stage.sql('select from pg_stat_activity where pid = $1', [actor.pid])
    return rows.length === 0
  })
}

/** The leader's own connection is to stay where it shows its presence on another: that one. */
const another = () => stage.actor('another', null)

test('who shows it is there; when its connection is gone it is absent, is buried, and the next in line has the key', async () => {
  const own = await another()
  expect(await holder()).toBeUndefined()
  expect(await show(own, 1)).toBe(true)
  const found = await holder()
  expect(found).toMatchObject({ generation: '1', grace: 3_000, absent: false })
  await vanish(own)
  const gone = await holder()
  expect(gone).toMatchObject({ peer: found?.peer, generation: '1', absent: true })
  expect(await reap(gone as Peer)).toBe(true)
  expect(await stage.session(leader)).toMatchObject({ dead: true })
  expect((await leader.heartbeat()).renewed).toBe(false)
  await waiter.tick([key], [])
  expect(await stage.lock(key)).toMatchObject({ session: waiter.session })
})

test('who is there is not buried', async () => {
  const own = await another()
  await show(own, 1)
  expect(await reap((await holder()) as Peer)).toBe(false)
  expect(await stage.session(leader)).toMatchObject({ dead: false })
})

test('two who ask at one moment do not take each other for who is asked about', async () => {
  const own = await another()
  await show(own, 1)
  await vanish(own)
  const other = await stage.actor('other')
  await waiter.begin()
  expect(await holder()).toMatchObject({ absent: true })
  expect(await holder(other)).toMatchObject({ absent: true })
  await waiter.commit()
})

test('who asks is there for itself, though its own lock would be granted to it', async () => {
  expect(await show(waiter, 1, waiter)).toBe(true)
  const [own] = await probe()
  expect(own).toMatchObject({ absent: false, holds: false })
  const other = await stage.actor('other')
  expect(await probe(other)).toMatchObject([{ peer: own?.peer, absent: false }])
})

test('who is in line for the key, and others, are told of, by names that are nobody’s id', async () => {
  const stranger = await stage.actor('stranger')
  for (const each of [leader, waiter, stranger]) await show(each, 1, each)
  const peers = await probe()
  expect(peers.map(({ holds, absent }) => [holds, absent]).sort()).toEqual([
    [false, false],
    [false, false],
    [true, false],
  ])
  for (const { session } of [leader, waiter, stranger]) {
    expect(JSON.stringify(peers)).not.toContain(session)
    expect(JSON.stringify(peers)).not.toContain(session.replaceAll('-', ''))
  }
})

test('back within the grace, and gone again: what was counted before is not good any more', async () => {
  const [first, second] = [await another(), await another()]
  await show(first, 1)
  await vanish(first)
  const before = (await holder()) as Peer
  await show(second, 2)
  await vanish(second)
  expect(await reap(before)).toBe(false)
  const after = (await holder()) as Peer
  expect(after).toMatchObject({ generation: '2', absent: true })
  expect(await reap(after)).toBe(true)
})

test('a server process that has not noticed that its client is gone keeps nobody from showing it anew', async () => {
  const [stale, fresh] = [await another(), await another()]
  await show(stale, 1)
  expect(await show(fresh, 2)).toBe(true)
  expect(await holder()).toMatchObject({ generation: '2', absent: false })
  await vanish(fresh)
  expect(await holder()).toMatchObject({ generation: '2', absent: true })
})

test('shown anew, and not yet committed, while somebody buries: nobody is', async () => {
  const [first, second] = [await another(), await another()]
  await show(first, 1)
  await vanish(first)
  const gone = (await holder()) as Peer
  await second.begin()
  await show(second, 2)
  expect(await reap(gone)).toBe(false)
  await second.commit()
  expect(await reap(gone)).toBe(false)
  expect(await holder()).toMatchObject({ generation: '2', absent: false })
})

test('shown anew, or withdrawn, while it is being buried: waits, and finds itself dead', async () => {
  const [first, second, third] = [await another(), await another(), await another()]
  await show(first, 1)
  await vanish(first)
  await waiter.begin()
  expect(await reap((await holder()) as Peer)).toBe(true)
  const shown = show(second, 2)
  await stage.blocked(second, waiter)
  const withdrawn = withdraw(third, 3)
  await until(async () => {
    const [row] = await stage.sql('select cardinality(pg_blocking_pids($1)) as by', [third.pid])
    return row?.by > 0
  })
  await waiter.commit()
  expect(await shown).toBe(false)
  expect(await withdrawn).toBe(false)
  // What was refused holds no lock.
  const locks = await stage.sql(`select from pg_locks where locktype = 'advisory' and pid = $1`, [second.pid])
  expect(locks).toEqual([])
})

test('a grant in flight keeps its session from being buried', async () => {
  const own = await another()
  await show(own, 1)
  await vanish(own)
  const gone = (await holder()) as Peer
  const more = stage.key('more')
  await leader.begin()
  await leader.acquire(more)
  expect(await reap(gone)).toBe(false)
  await leader.commit()
  expect(await reap(gone)).toBe(true)
  await stage.reapDue()
  await waiter.tick()
  expect(await stage.lock(more)).toBeUndefined()
})

test('withdrawn: absence counts no more, and what comes late does not bring it back', async () => {
  const [own, late] = [await another(), await another()]
  await show(own, 1)
  await vanish(own)
  const gone = (await holder()) as Peer
  expect(await withdraw(leader, 3)).toBe(true)
  expect(await holder()).toBeUndefined()
  expect(await reap(gone)).toBe(false)
  // A show that was lost on its way, and a withdrawal that is repeated.
  expect(await show(late, 2)).toBe(false)
  expect(await withdraw(leader, 3)).toBe(true)
  expect(await holder()).toBeUndefined()
  expect(await show(late, 4)).toBe(true)
  expect(await withdraw(leader, 3)).toBe(true)
  expect(await holder()).toMatchObject({ generation: '4', absent: false })
})

test('in a young life of the server nobody is buried', async () => {
  const own = await another()
  await show(own, 1)
  await vanish(own)
  const gone = (await holder()) as Peer
  await grownUp(9)
  expect(await reap(gone)).toBe(false)
  await grownUp(11)
  expect(await reap(gone)).toBe(true)
})

test('nor within a grace that is longer than that', async () => {
  const own = await another()
  await show(own, 1, leader, '20s')
  await vanish(own)
  const gone = (await holder()) as Peer
  await grownUp(19)
  expect(await reap(gone)).toBe(false)
  await grownUp(21)
  expect(await reap(gone)).toBe(true)
})

test('what was shown in another life of the server does not count in this one', async () => {
  const own = await another()
  await show(own, 1)
  await vanish(own)
  const gone = (await holder()) as Peer
  const { boot } = await incarnation(stage)
  // A crash: the canary is empty.
  await stage.sql('delete from $schema.canary')
  expect(await holder()).toBeUndefined()
  await waiter.heartbeat()
  expect((await incarnation(stage)).boot).not.toBe(boot)
  await grownUp()
  expect(await holder()).toBeUndefined()
  expect(await reap(gone)).toBe(false)
  const again = await another()
  expect(await show(again, 2)).toBe(true)
  expect(await holder()).toMatchObject({ generation: '2', absent: false })
})

test('where the server’s clock is in doubt nobody is buried', async () => {
  const own = await another()
  await show(own, 1)
  await vanish(own)
  const gone = (await holder()) as Peer
  expect(await reap(gone, waiter, { serverTime: Date.now() - 60_000, elapsed: 0 })).toBe(false)
  expect(await reap(gone, waiter, { serverTime: Date.now(), elapsed: 0 })).toBe(true)
})

test('a name of somebody else, or of nobody, buries nobody', async () => {
  const [own, theirs] = [await another(), await another()]
  await show(own, 1)
  await show(theirs, 1, waiter)
  await vanish(own)
  const peers = await probe()
  const other = peers.find(({ holds }) => !holds) as Peer
  expect(await reap(other)).toBe(false)
  expect(await reap({ peer: 'x', generation: '1' })).toBe(false)
  expect(await stage.session(leader)).toMatchObject({ dead: false })
})

test('the grace has bounds', async () => {
  for (const grace of ['499 ms', '25 hours', null])
    await expect(show(waiter, 1, waiter, grace as string)).rejects.toMatchObject({ code: 'FP012' })
  expect(await probe()).toEqual([])
})

test('a heartbeat of a session that shows presence stays a heap-only update', async () => {
  await show(waiter, 1, waiter)
  const updates = async () => {
    const [row] = await waiter.sql(
      `select pg_stat_get_xact_tuples_updated(c)::int as updated, pg_stat_get_xact_tuples_hot_updated(c)::int as hot
         from (select '$schema.sessions'::regclass::oid as c) x`,
    )
    return row as { updated: number; hot: number }
  }
  await waiter.begin()
  const before = await updates()
  await waiter.heartbeat()
  const after = await updates()
  await waiter.commit()
  expect([after.updated - before.updated, after.hot - before.hot]).toEqual([1, 1])
})
