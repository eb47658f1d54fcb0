import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import {
  Fencepost,
  type FencepostOptions,
  NotMigratedError,
  NotPermittedError,
  OutOfConnectionsError,
  ReadOnlyServerError,
  ServerTooOldError,
  UnreachableError,
} from '../../src/index.ts'
import { freePort } from '../../src/testing/port.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { expectNothingLeft } from '../support/leftovers.ts'
import { startProxy } from '../support/proxy.ts'
import { until } from '../support/until.ts'

let db: TestDatabase
const clients: Fencepost[] = []
const pools: pg.Pool[] = []
beforeAll(async () => {
  db = await createDatabase()
})
afterEach(async () => {
  await Promise.all(clients.splice(0).map(client => client.close()))
  await Promise.all(pools.splice(0).map(pool => pool.end()))
  await expectNothingLeft(db.pool({ max: 1 }), db.schema)
})
afterAll(() => db.drop())

// Straight to the server, whatever the twist: what is wrong with it is the subject.
const ways = {
  'a pool': (pool: pg.Pool) => pool,
  'a query function': (pool: pg.Pool) => ({
    query: (text: string, values?: unknown[]) => pool.query(text, values),
  }),
}

function connect(
  way: keyof typeof ways,
  connectionString: string,
  options: Partial<FencepostOptions> = {},
): Fencepost {
  const pool = new pg.Pool({ connectionString })
  pool.on('error', () => {})
  pools.push(pool)
  const client = new Fencepost({ pool: ways[way](pool), schema: db.schema, ...options })
  clients.push(client)
  return client
}

/** The URL of a new role that may use the locks, with something the matter. */
async function asRole(trouble: string, granted = true): Promise<{ url: string; role: string }> {
  const url = new URL(db.url)
  url.username = `${db.name}_${randomBytes(4).toString('hex')}`
  url.password = randomBytes(12).toString('hex')
  await db.query(`create role ${url.username} login password '${url.password}'`)
  if (granted) await migrate({ connection: db.url, schema: db.schema, grant: [url.username] })
  if (trouble) await db.query(`alter role ${url.username} ${trouble}`)
  return { url: url.href, role: url.username }
}

/** Each way of asking fails with this, at once: whoever waits for a database that is not there is told. */
async function expectRefused(
  client: Fencepost,
  error: new (...values: never[]) => Error,
  code: string,
): Promise<void> {
  const began = performance.now()
  for (const ask of [
    () => client.acquire('k'),
    () => client.tryAcquire('k'),
    () => client.withLock('k', () => 'ran'),
  ]) {
    const [outcome] = await Promise.allSettled([ask()])
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code } })
    expect((outcome as PromiseRejectedResult).reason).toBeInstanceOf(error)
  }
  expect(performance.now() - began).toBeLessThan(2_500)
}

async function expectGranted(client: Fencepost): Promise<void> {
  const lock = await client.acquire('k')
  expect(await lock.release()).toBe('released')
}

describe.each(Object.keys(ways) as (keyof typeof ways)[])('%s', way => {
  test('nobody listens there: unreachable, and no worse when it comes back', async () => {
    const proxy = await startProxy(db.url)
    await proxy.accept(false)
    const client = connect(way, proxy.url(db.url))
    await expectRefused(client, UnreachableError, 'unreachable')
    await expect(client.acquire('k')).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } })
    await proxy.accept(true)
    await expectGranted(client)
    await client.close()
    await proxy.close()
  })

  test('no such host, database or password: unreachable', async () => {
    const [host, database, password] = [new URL(db.url), new URL(db.url), new URL(db.url)]
    host.hostname = 'nowhere.invalid'
    database.pathname = '/nowhere'
    password.password = 'wrong'
    for (const url of [host, database, password]) {
      await expectRefused(connect(way, url.href), UnreachableError, 'unreachable')
    }
  })

  test('a server that accepts and says nothing: given up as asked', async () => {
    const proxy = await startProxy(db.url)
    proxy.blackHole()
    const client = connect(way, proxy.url(db.url))
    const began = performance.now()
    await expect(client.acquire('k', { timeout: 50 })).rejects.toMatchObject({ code: 'timed_out' })
    const signal = AbortSignal.timeout(50)
    await expect(client.acquire('k', { signal })).rejects.toMatchObject({ code: 'aborted' })
    expect(performance.now() - began).toBeLessThan(2_500)
    await proxy.close()
  })

  test('read-only', async () => {
    const { url } = await asRole('set default_transaction_read_only = on')
    await expectRefused(connect(way, url), ReadOnlyServerError, 'read_only')
  })

  test('not migrated, then migrated', async () => {
    const empty = await createDatabase({ migrate: false })
    const client = connect(way, empty.url)
    await expectRefused(client, NotMigratedError, 'not_migrated')
    await migrate({ connection: empty.url, schema: empty.schema })
    await expectGranted(client)
    await client.close()
    await Promise.all(pools.splice(0).map(pool => pool.end()))
    await empty.drop()
  })

  test('another schema than the one that was migrated', async () => {
    const client = connect(way, db.url, { schema: 'Not "this one' })
    await expectRefused(client, NotMigratedError, 'not_migrated')
    await expect(client.acquire('k')).rejects.toThrow('Not "this one')
  })

  test.each([
    ['older than this client knows', 'version = 0', 'run "fencepost migrate"'],
    ['newer than it admits this client', 'compatible_from = 1000', 'update the package "fencepost"'],
  ])('a schema that is %s', async (_, change, advice) => {
    const other = await createDatabase()
    const name = pg.escapeIdentifier(other.schema)
    await other.query(`update ${name}.cluster set ${change}`)
    const client = connect(way, other.url)
    await expectRefused(client, NotMigratedError, 'not_migrated')
    await expect(client.acquire('k')).rejects.toThrow(advice)
    await client.close()
    await Promise.all(pools.splice(0).map(pool => pool.end()))
    await other.drop()
  })

  test('a schema whose name needs quoting', async () => {
    const odd = await createDatabase({ schema: `it's "Odd" \\ é;--` })
    const client = connect(way, odd.url, { schema: odd.schema })
    const lock = await client.acquire('k')
    expect(await client.tryAcquire('k')).toBeNull()
    await lock.renew()
    const waiter = client.acquire('k')
    expect(await lock.release()).toBe('released')
    expect(await (await waiter).release()).toBe('released')
    await client.close()
    await expectNothingLeft(odd.pool({ max: 1 }), odd.schema)
    await Promise.all(pools.splice(0).map(pool => pool.end()))
    await odd.drop()
  })

  test('a role that was not granted the schema', async () => {
    const { url } = await asRole('', false)
    await expectRefused(connect(way, url), NotPermittedError, 'not_permitted')
  })

  test('no connection left, then one again', async () => {
    const { url, role } = await asRole('connection limit 0')
    const client = connect(way, url)
    await expectRefused(client, OutOfConnectionsError, 'out_of_connections')
    await db.query(`alter role ${role} connection limit 10`)
    await expectGranted(client)
  })
})

test('connections to hold with, and none to give back with: the release is not lost', async () => {
  const { url, role } = await asRole('connection limit 2')
  const client = connect('a pool', url)
  const lock = await client.acquire('k')
  await lock.renew()
  await lock.release()
  await db.query(`alter role ${role} connection limit 10`)
  const schema = pg.escapeIdentifier(db.schema)
  await until(async () => (await db.query(`select from ${schema}.locks`)).length === 0)
})

test('a server older than 14', async () => {
  class OldServer extends pg.Client {
    // biome-ignore lint/suspicious/noExplicitAny: stands in for all the overloads of the driver
    override query(...values: any[]): any {
      if (!values[0]?.text?.includes('server_version_num')) return super.query(...(values as [string]))
      return Promise.resolve({ rows: [['130022', 'f']] })
    }
  }
  const pool = new pg.Pool({ connectionString: db.url, Client: OldServer } as pg.PoolConfig)
  pools.push(pool)
  const client = new Fencepost({ pool, schema: db.schema })
  clients.push(client)
  await expectRefused(client, ServerTooOldError, 'server_too_old')
  await expect(client.acquire('k')).rejects.toThrow('130022')
})

test('what cannot be migrated by way of a query function is refused', async () => {
  const client = connect('a query function', db.url)
  await expect(client.migrate()).rejects.toMatchObject({ code: 'bad_option' })
})

test('a port that nobody listens on, by connection string', async () => {
  const url = new URL(db.url)
  url.port = String(await freePort())
  const client = new Fencepost({ connectionString: url.href, schema: db.schema })
  clients.push(client)
  await expectRefused(client, UnreachableError, 'unreachable')
})

test('who asks while a first connection gets no answer is told with those who asked before', async () => {
  const sockets: Socket[] = []
  const silent = createServer(socket => {
    sockets.push(socket)
    socket.on('error', () => {})
  })
  silent.listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const url = new URL(db.url)
  url.port = String((silent.address() as AddressInfo).port)
  try {
    const client = new Fencepost({ connectionString: url.href, schema: db.schema, listen: false })
    clients.push(client)
    const asked = [client.acquire('k')]
    await until(() => sockets.length > 0)
    asked.push(client.acquire('k'), client.acquire('other'))
    const tried = sockets.length
    for (const socket of sockets) socket.resetAndDestroy()
    for (const outcome of await Promise.allSettled(asked))
      expect(outcome).toMatchObject({ reason: { code: 'unreachable' } })
    expect(sockets).toHaveLength(tried)
  } finally {
    for (const socket of sockets) socket.destroy()
    silent.close()
  }
})
