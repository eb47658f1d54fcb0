// Elections where a reply is lost or late, and what is resigned while something is still on its way.
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import type { Election, Fencepost } from '../../src/index.ts'
import type { PostgresProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'
import { Clients, callOf } from './support/clients.ts'
import { Stage } from './support/stage.ts'
import { watched } from './support/watched.ts'

let stage: Stage
let clients: Clients
let fp: Fencepost
let proxy: PostgresProxy
let key: string
/** Behind the proxy. */
let election: Election

beforeAll(async () => {
  stage = await Stage.create()
  clients = new Clients(stage)
})
beforeEach(async () => {
  key = stage.key()
  ;({ fp, proxy } = await clients.proxied())
  await clients.ready(fp)
  election = fp.election(key)
})
afterEach(() => clients.end())
afterAll(() => stage.drop())

test('the reply that elects is lost: elected once, under the token of the record', async () => {
  const dropped = proxy.dropReplyAfter(callOf('acquire'))
  const campaign = watched(election.campaign())
  await dropped
  expect(election.isLeader).toBe(false)
  const record = await stage.lock(key)
  const { token } = await campaign.promise
  expect([election.isLeader, token]).toEqual([true, record?.token])
  expect(await election.leader()).toMatchObject({ identity: election.identity, token })
})

test('the reply that elects is read only after the session’s end: elected under the next one, or not at all', async () => {
  const short = await clients.proxied({ ttl: '1s' })
  await clients.ready(short.fp)
  const candidate = short.fp.election(key)
  short.proxy.hold('toClient')
  const campaign = watched(candidate.campaign())
  const first = await until(() => stage.lock(key))
  const other = await stage.actor('other')
  await until(async () => {
    await stage.reapDue()
    await other.tick()
    return (await stage.lock(key)) === undefined
  })
  expect([campaign.state, candidate.isLeader]).toEqual(['open', false])
  short.proxy.release()
  const { token } = await campaign.promise
  expect(token).toBeGreaterThan(first.token)
  expect(candidate.isLeader).toBe(true)
  await candidate.resign()
})

test('the reply to a resignation is lost: repeated, it does not touch who was elected meanwhile', async () => {
  const next = clients.direct().election(key)
  const first = await election.campaign()
  const waiting = watched(next.campaign())
  await until(async () => (await stage.line(key)).length === 1)
  const dropped = proxy.dropReplyAfter(callOf('release'))
  const resigned = election.resign()
  expect(election.isLeader).toBe(false)
  await dropped
  const { token, signal } = await waiting.promise
  expect(token).toBeGreaterThan(first.token)
  expect(await resigned).toBe('released')
  expect([next.isLeader, signal.aborted]).toEqual([true, false])
  expect(await stage.lock(key)).toMatchObject({ token, released: false })
  expect(proxy.counters.repliesDropped).toBe(1)
})

test('resigned while a renewal is in flight: the renewal brings nothing back, and its answer is no loss', async () => {
  const beating = await clients.beatProxied()
  const leader = beating.fp.election(key)
  const { signal, lock } = await leader.campaign()
  await until(async () => (await beating.fp.health()).waking === 'listening')
  beating.proxy.hold('toClient')
  const renewed = watched(lock.renew())
  await until(async () => {
    const [row] = await stage.sql(
      `select from pg_stat_activity where application_name = 'fencepost beat' and query like '%heartbeat%'
          and datname = current_database() and state = 'idle' and state_change > clock_timestamp() - interval '5 s'`,
    )
    return row !== undefined
  })
  expect(await leader.resign()).toBe('released')
  const next = await clients.direct().election(key).campaign()
  beating.proxy.release()
  await until(() => renewed.state !== 'open')
  expect(renewed.error).toMatchObject({ code: 'not_held' })
  expect(leader.isLeader).toBe(false)
  expect(signal.reason).toMatchObject({ code: 'not_held' })
  expect(await stage.lock(key)).toMatchObject({ token: next.token, released: false })
  // And it may lead again, under the session that was renewed.
  const again = watched(leader.campaign())
  await until(async () => (await stage.line(key)).length === 1)
  expect(again.state).toBe('open')
})

test('granted while the wall clock says that trust is over: elected when a renewal has answered, and not before', async () => {
  const beating = await clients.beatProxied()
  const candidate = beating.fp.election(key)
  await candidate.campaign()
  await candidate.resign()
  await until(async () => (await beating.fp.health()).waking === 'listening')
  beating.proxy.hold('toClient')
  const rightly = Date.now
  vi.spyOn(Date, 'now').mockImplementation(() => rightly() + 3_600_000)
  onTestFinished(() => void vi.restoreAllMocks())
  const campaign = watched(candidate.campaign())
  const record = await until(() => stage.lock(key))
  // By the connection that has asked for it: what was granted has been answered.
  await beating.fp.tokenBase()
  expect([campaign.state, candidate.isLeader]).toEqual(['open', false])
  beating.proxy.release()
  expect((await campaign.promise).token).toBe(record.token)
  expect(candidate.isLeader).toBe(true)
})

test('lost while it drains: the end of the callback gives back nothing of who leads by then', async () => {
  const ending = new AbortController()
  let end = () => {}
  const done = new Promise<void>(resolve => {
    end = resolve
  })
  let elected = () => {}
  const leads = new Promise<void>(resolve => {
    elected = resolve
  })
  const leading = watched(
    election.lead(
      async () => {
        elected()
        await done
      },
      { signal: ending.signal },
    ),
  )
  await leads
  const first = await stage.lock(key)
  ending.abort()
  expect(election.isLeader).toBe(false)
  // It works on, and is buried.
  await stage.sql(
    `update $schema.sessions set died = clock_timestamp(), generation = generation + 1 where id = $1`,
    [first?.session],
  )
  const next = clients.direct().election(key)
  const { token, signal } = await next.campaign()
  expect(leading.state).toBe('open')
  end()
  await leading.promise
  expect([next.isLeader, signal.aborted]).toEqual([true, false])
  expect(await stage.lock(key)).toMatchObject({ token, released: false })
})

test('closed while the reply that elects is on its way: not elected, and nothing of it is left', async () => {
  proxy.hold('toClient')
  const campaign = watched(election.campaign())
  await until(() => stage.lock(key))
  const closed = fp.close()
  proxy.release()
  await closed
  await until(() => campaign.state !== 'open')
  expect(campaign.error).toMatchObject({ code: 'closed' })
  expect(election.isLeader).toBe(false)
  await until(async () => (await stage.lock(key)) === undefined)
})

test('an observer whose look is answered late shows no term that is over by what it has shown', async () => {
  const [one, other] = [clients.direct().election(key), clients.direct().election(key)]
  const first = await one.campaign()
  const shown: (bigint | null)[] = []
  const reading = (async () => {
    for await (const leader of election.observe()) shown.push(leader?.token ?? null)
  })()
  await until(() => shown.length === 1)
  proxy.hold('toClient')
  await one.resign()
  const second = await other.campaign()
  await other.resign()
  const third = await one.campaign()
  proxy.release()
  await until(() => shown.at(-1) === third.token)
  await fp.close()
  await reading
  expect(shown[0]).toBe(first.token)
  const terms = shown.filter(token => token !== null)
  expect(terms).toEqual([...terms].sort((a, b) => (a < b ? -1 : 1)))
  expect(new Set(terms).size).toBe(terms.length)
  expect(second.token).toBeLessThan(third.token)
})
