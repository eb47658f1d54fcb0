import { createHash } from 'node:crypto'
import { inject } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import { asAdmin, withDatabase } from './admin.ts'
import { twist } from './twist.ts'

const known = new Map<string, Promise<string>>()

/** A database with a migrated `schema` and nobody in it, made once a run, to be cloned. */
export function templateOf(adminUrl: string, schema: string): Promise<string> {
  const { run } = inject('server')
  const name = `${run}_template_${createHash('sha256').update(schema).digest('hex').slice(0, 8)}`
  const place = `${adminUrl} ${name}`
  const template = known.get(place) ?? create(adminUrl, name, schema)
  known.set(place, template)
  return template
}

// Test files run in several processes. The name is given last: what bears it is complete.
async function create(adminUrl: string, name: string, schema: string): Promise<string> {
  return await asAdmin(adminUrl, async admin => {
    await admin.query('select pg_advisory_lock(hashtextextended($1, 0))', [name])
    const existing = await admin.query('select from pg_database where datname = $1', [name])
    if (existing.rowCount) return name
    const draft = `${name}_draft`
    await admin.query(`drop database if exists ${draft}`)
    await admin.query(`create database ${draft} template template0`)
    await migrate({ connection: withDatabase(migratorUrl(adminUrl), draft), schema })
    await admin.query(`alter database ${draft} rename to ${name}`)
    return name
  })
}

// The hostile role migrates, too. A transaction pooler is passed by, as its users are told to.
function migratorUrl(adminUrl: string): string {
  const shared = inject('server')
  return twist.name === 'hostile' && adminUrl === shared.adminUrl ? shared.twistedUrl : adminUrl
}
