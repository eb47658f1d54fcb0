import { createServer, type Server } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import { latestVersion } from '../../src/database/migrations/catalog.ts'
import type { OwnConnection } from '../../src/database/migrations/connection.ts'
import { checkServer } from '../../src/database/migrations/transaction.ts'
import { BadOptionError, ServerTooOldError, UnreachableError } from '../../src/errors.ts'
import { freePort } from '../../src/testing/port.ts'
import { startTestPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const opened: AsyncDisposable[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each[Symbol.asyncDispose]()
})

test('a database that is down is waited for, also while it starts up', { timeout: 60_000 }, async () => {
  const server = await startTestPostgres()
  opened.push(server)
  await server.stop()
  const lines: string[] = []
  const migrating = migrate({ connection: server.url, wait: 50_000, log: line => lines.push(line) })
  await until(() => lines.length > 0, { what: 'migrate has tried once' })
  await server.start()
  expect((await migrating).version).toBe(latestVersion)
  expect(lines[0]).toContain('ECONNREFUSED')
})

test('"starting up" is waited for', async () => {
  // Answers the first two connections as a server in recovery does, and hangs up on the third.
  let connections = 0
  const address = await listen(socket => {
    connections += 1
    socket.once('data', () => {
      if (connections <= 2) socket.end(fatal('57P03', 'the database system is starting up'))
      else socket.end(fatal('28P01', 'password authentication failed'))
    })
  })
  const failure = await migrate({ connection: address, wait: 20_000 }).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(UnreachableError)
  expect(failure).toMatchObject({ cause: { code: '28P01' } })
  expect(connections).toBe(3)
})

test('a server that accepts and says nothing is given up', async () => {
  const port = Number(new URL(await listen(() => {})).port)
  const connection = { host: '127.0.0.1', port, user: 'user', database: 'x', connectionTimeoutMillis: 200 }
  await expect(migrate({ connection })).rejects.toThrow(UnreachableError)
})

test('waiting ends when its time is over', async () => {
  const connection = `postgres://127.0.0.1:${await freePort()}/postgres`
  const began = performance.now()
  await expect(migrate({ connection, wait: 300 })).rejects.toThrow(UnreachableError)
  expect(performance.now() - began).toBeGreaterThan(290)
  await expect(migrate({ connection })).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } })
})

test('a connection that is lost on the way is told as such', async () => {
  const address = await listen(socket => {
    socket.once('data', () => socket.destroy())
  })
  await expect(migrate({ connection: address })).rejects.toThrow(UnreachableError)
})

test('a server before 14 is refused by name', async () => {
  const old = { query: async () => ({ rows: [{ major: 13, read_only: false }] }) } as unknown as OwnConnection
  await expect(checkServer(old)).rejects.toThrow(ServerTooOldError)
})

test.each(['postgres://user:secret@[bad/x', 'postgres://user:secret@host:99999999/x'])(
  'a connection string that cannot be read: %#',
  async url => {
    const failure = await migrate({ connection: url }).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(BadOptionError)
    expect(String(failure)).not.toContain('secret')
  },
)

test.each([-1, Number.NaN])('refuses to wait %d ms', async wait => {
  await expect(migrate({ connection: 'postgres://127.0.0.1/x', wait })).rejects.toThrow(BadOptionError)
})

async function listen(answer: Parameters<typeof createServer>[1] & {}): Promise<string> {
  const server: Server = createServer(answer)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  opened.push({ [Symbol.asyncDispose]: async () => void server.close() })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return `postgres://user@127.0.0.1:${address.port}/x`
}

// An ErrorResponse: type, length, fields that each end with a zero, and a zero.
function fatal(code: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`)
  const head = Buffer.alloc(5)
  head.write('E')
  head.writeInt32BE(fields.length + 4, 1)
  return Buffer.concat([head, fields])
}
