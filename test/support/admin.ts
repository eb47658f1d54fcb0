import pg from 'pg'

/** Does `work` on a connection of its own. */
export async function asAdmin<T>(adminUrl: string, work: (admin: pg.Client) => Promise<T>): Promise<T> {
  const admin = new pg.Client(adminUrl)
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.end()
  }
}

/** The same URL with another database. */
export function withDatabase(url: string, name: string): string {
  const changed = new URL(url)
  changed.pathname = `/${name}`
  return changed.href
}

/** Whether the server at `url` takes a connection; for a server that is about to. */
export async function connects(url: string): Promise<boolean> {
  const client = new pg.Client(url)
  client.on('error', () => {})
  try {
    await client.connect()
    return true
  } catch {
    return false
  } finally {
    await client.end()
  }
}
