import { randomBytes } from 'node:crypto'
import type pg from 'pg'

/** What an administrator may have set for the role that Fencepost is given; none of it may do harm. */
const settings = {
  statement_timeout: '1s',
  lock_timeout: '1s',
  idle_in_transaction_session_timeout: '1s',
  idle_session_timeout: '1s',
  transaction_timeout: '1s',
  default_transaction_isolation: 'serializable',
  synchronous_commit: 'off',
}

/** Answers the URL of a new role with every default set against us; settings that the server lacks are left out. */
export async function createHostileRole(admin: pg.Client, adminUrl: string, run: string): Promise<string> {
  const url = new URL(adminUrl)
  url.username = `${run}_hostile`
  url.password = randomBytes(12).toString('hex')
  await admin.query(`create role ${url.username} superuser login password '${url.password}'`)
  const known = await admin.query('select name from pg_settings where name = any($1)', [
    Object.keys(settings),
  ])
  for (const [name, value] of Object.entries(settings)) {
    if (known.rows.some(row => row.name === name)) {
      await admin.query(`alter role ${url.username} set ${name} = '${value}'`)
    }
  }
  return url.href
}
