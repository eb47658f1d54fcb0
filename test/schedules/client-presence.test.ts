// Elections with takeover 'fast' whose connections are cut, held, slow or ended: who trusts what, and until when.
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import type { Election, ElectionOptions, Fencepost } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { Clients, callOf } from './support/clients.ts'
import { Stage } from './support/stage.ts'
import { watched } from './support/watched.ts'

const grace = 1_000
const fast = { takeover: 'fast', grace, ttl: '30s' } as const

let stage: Stage
let clients: Clients
let key: string

beforeAll(async () => {
  stage = await Stage.create()
  clients = new Clients(stage)
})
beforeEach(() => {
  key = stage.key()
})
afterEach(() => clients.end())
afterAll(() => stage.drop())

interface Shown {
  readonly id: string
  readonly generation: number
  readonly isShown: boolean
}

/** What the database has of the leader's presence. */
async function presence(): Promise<Shown | undefined> {
  const [row] = await stage.sql(
    `select s.id, s.presence_generation::int as generation, s.presence_boot is not null as shown
       from $schema.sessions s join $schema.locks l on l.session = s.id where l.key = $1`,
    [key],
  )
  return row && { id: row.id, generation: row.generation, isShown: row.shown }
}

async function shows(count: number): Promise<void> {
  await until(
    async () => {
      const rows = await stage.sql(
        'select from $schema.sessions where presence_boot is not null and died is null',
      )
      return rows.length === count
    },
    { what: `${count} show their presence` },
  )
}

/** Leads, and shows its presence, in a life of the server that began long ago. */
async function leads(fp: Fencepost, options: ElectionOptions = fast): Promise<Election> {
  const election = fp.election(key, options)
  await election.campaign()
  await until(async () => (await presence())?.isShown)
  await stage.sql(`update $schema.cluster set since = clock_timestamp() - interval '1 h'`)
  return election
}

async function waits(fp: Fencepost, options: ElectionOptions = fast) {
  const election = fp.election(key, options)
  const campaign = watched(election.campaign())
  await until(async () => (await stage.line(key)).length === 1)
  await shows(2)
  return { election, campaign }
}

/** Trust as the ttl has it. */
const isOfTtl = async (election: Election, fp: Fencepost) =>
  election.isLeader && ((await fp.health()).trustLeft ?? 0) > 5 * grace

test('one whose connections are all cut, and who cannot come back, trusts no more by the time that another leads', async () => {
  const { fp, proxy } = await clients.proxied()
  const leader = await leads(fp)
  const { election, campaign } = await waits(clients.direct())
  await proxy.accept(false)
  proxy.cut()
  const cut = performance.now()
  let ended = Number.POSITIVE_INFINITY
  await until(() => {
    if (!leader.isLeader) ended = Math.min(ended, performance.now())
    return campaign.state === 'answered'
  })
  expect([leader.isLeader, election.isLeader]).toEqual([false, true])
  expect(ended).toBeLessThanOrEqual(campaign.at)
  expect(campaign.at - cut).toBeGreaterThan(grace)
  expect(campaign.at - cut).toBeLessThan(10_000)
})

test('one whose connection the server ends goes on, under the same token, and shows its presence on another', async () => {
  const fp = clients.direct()
  const leader = await leads(fp)
  const { campaign } = await waits(clients.direct())
  const before = await presence()
  await stage.sql(
    `select pg_terminate_backend(l.pid) from pg_locks l, $schema.sessions s, $schema.presence_key(s.id, s.presence_generation) k
      where l.locktype = 'advisory' and l.database = (select oid from pg_database where datname = current_database())
        and s.id = $1 and lpad(to_hex(l.classid::bigint), 8, '0') || lpad(to_hex(l.objid::bigint), 8, '0') = lpad(to_hex(k), 16, '0')`,
    [before?.id],
  )
  const after = await until(async () => {
    const shown = await presence()
    return shown?.isShown && shown.generation > (before?.generation ?? 0) ? shown : undefined
  })
  expect(after.id).toBe(before?.id)
  expect([leader.isLeader, campaign.state]).toEqual([true, 'open'])
})

test('one whose presence is out of reach has it withdrawn by its other connections, and leads on', async () => {
  const { fp, proxy } = await clients.beatProxied()
  const leader = await leads(fp)
  const { campaign } = await waits(clients.direct())
  proxy.hold()
  await until(async () => !(await presence())?.isShown)
  await until(() => isOfTtl(leader, fp))
  const held = performance.now()
  await until(() => performance.now() - held > 2 * grace)
  expect([leader.isLeader, campaign.state]).toEqual([true, 'open'])
  proxy.release()
  await until(async () => (await presence())?.isShown)
})

test('a server that takes two seconds to answer costs nobody the leadership', async () => {
  const { fp, proxy } = await clients.proxied()
  const leader = await leads(fp, { ...fast, grace: '3s' })
  proxy.delay(2_000, 'toClient')
  let wasLeader = true
  await until(async () => {
    wasLeader &&= leader.isLeader
    return !(await presence())?.isShown
  })
  const withdrawn = performance.now()
  await until(() => {
    wasLeader &&= leader.isLeader
    return performance.now() - withdrawn > 4_000
  })
  expect(wasLeader).toBe(true)
})

test('the reply that says that it is shown is lost: it is withdrawn, and shown under a higher number', async () => {
  const { fp, proxy } = await clients.beatProxied()
  const election = fp.election(key, fast)
  const dropped = proxy.dropReplyAfter(callOf('show_presence'))
  await election.campaign()
  await dropped
  const again = await until(async () => {
    const shown = await presence()
    return shown?.isShown && shown.generation > 1 ? shown : undefined
  })
  expect(again.generation).toBeGreaterThanOrEqual(3)
  expect(election.isLeader).toBe(true)
})

test('trust is the grace’s while presence is shown, and the other locks of the client are not concerned', async () => {
  const fp = clients.direct()
  const lock = await fp.acquire(stage.key('other'))
  const leader = await leads(fp)
  const trustLeft = (await fp.health()).trustLeft ?? Number.NaN
  expect(trustLeft).toBeLessThanOrEqual(grace - 200)
  expect(lock.remaining).toBeGreaterThan(5 * grace)
  expect(leader.isLeader).toBe(true)
  await lock.release()
})

test('who resigns shows no presence any more, and nothing is left of it: neither session nor lock nor connection', async () => {
  const fp = clients.direct()
  const leader = await leads(fp)
  const next = await waits(clients.direct())
  expect(await leader.resign()).toBe('released')
  await next.campaign.promise
  await shows(1)
  await until(async () => {
    const rows = await stage.sql(
      `select from pg_stat_activity where application_name = 'fencepost presence' and datname = current_database()`,
    )
    return rows.length === 1
  })
  // And it may stand again, under another session.
  const again = watched(leader.campaign())
  await until(async () => (await stage.line(key)).length === 1)
  await shows(2)
  expect(again.state).toBe('open')
})

test('who gives up its campaign leaves nothing of it', async () => {
  await leads(clients.direct())
  const election = clients.direct().election(key, fast)
  await expect(election.campaign({ timeout: 500 })).rejects.toMatchObject({ code: 'timed_out' })
  await shows(1)
  expect(await stage.line(key)).toEqual([])
})

test('lead goes on under one session, from term to term', async () => {
  const fp = clients.direct()
  const ending = new AbortController()
  const sessions = new Set<string>()
  let terms = 0
  await fp.election(key, fast).lead(
    async () => {
      sessions.add((await stage.lock(key))?.session ?? '')
      if (++terms === 3) ending.abort()
    },
    { signal: ending.signal },
  )
  expect([terms, sessions.size]).toEqual([3, 1])
  await until(async () => (await stage.sql('select from $schema.sessions where died is null')).length === 0)
})

test('without a connection straight to the server a warning says so, and the ttl rules', async () => {
  const codes: (string | undefined)[] = []
  const heard = (warning: Error & { code?: string }) => codes.push(warning.code)
  process.on('warning', heard)
  onTestFinished(() => void process.removeListener('warning', heard))
  const fp = clients.direct({ listen: false })
  const election = fp.election(key, fast)
  await election.campaign()
  await until(() => codes.includes('FENCEPOST_PRESENCE'))
  expect(await presence()).toMatchObject({ isShown: false })
  expect(await isOfTtl(election, fp)).toBe(true)
})
