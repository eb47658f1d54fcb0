import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { createHostileRole } from './hostile.ts'
import { type PgBouncer, startPgBouncer } from './pgbouncer.ts'
import { startServerUnderTest } from './server-under-test.ts'
import { twistName } from './settings.ts'

/** What test files learn of the server that they share. */
export interface SharedServer {
  /** Of a role that may create databases and roles; to the database `postgres`. */
  readonly adminUrl: string
  /** As the twist has the product connect; to the database `postgres`. */
  readonly twistedUrl: string
  /** Begins the name of every database and role of this run. */
  readonly run: string
  readonly logFile: string | undefined
}

declare module 'vitest' {
  export interface ProvidedContext {
    server: SharedServer
  }
}

/** Starts the server and what the twist puts before it; ends them, and every database of the run, afterwards. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startServerUnderTest()
  const run = `fencepost_${randomBytes(4).toString('hex')}`
  const admin = new pg.Client(server.adminUrl)
  await admin.connect()
  const { rows } = await admin.query('show server_version')
  const versions = `Node ${process.version}, PostgreSQL ${rows[0].server_version}`
  console.log(`fencepost tests: ${versions}, ${server.origin}, twist ${twistName}`)

  let twistedUrl = server.adminUrl
  let bouncer: PgBouncer | undefined
  if (twistName === 'hostile') twistedUrl = await createHostileRole(admin, server.adminUrl, run)
  if (twistName === 'pgbouncer') {
    bouncer = await startPgBouncer(server.adminUrl)
    twistedUrl = bouncer.url
  }
  project.provide('server', { adminUrl: server.adminUrl, twistedUrl, run, logFile: server.logFile })

  return async () => {
    await bouncer?.end()
    await dropAll(admin, run)
    await admin.end()
    await server.end()
  }
}

async function dropAll(admin: pg.Client, run: string): Promise<void> {
  const databases = await admin.query(
    'select datname as name from pg_database where starts_with(datname, $1)',
    [run],
  )
  for (const { name } of databases.rows) {
    await admin.query(`alter database ${name} is_template false`)
    await admin.query(`drop database ${name} with (force)`)
  }
  const roles = await admin.query('select rolname as name from pg_roles where starts_with(rolname, $1)', [
    run,
  ])
  for (const { name } of roles.rows) await admin.query(`drop role ${name}`)
}
