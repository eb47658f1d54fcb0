import type { Row } from './actor.ts'

/** How much the base rises by, at least, with each incarnation. */
export const step: bigint = 2n ** 32n

export interface Incarnation {
  readonly boot: string
  /** Null: it is empty. */
  readonly canary: string | null
  readonly base: bigint
}

/** What is recorded of this life of the server, as it stands. */
export async function incarnation(database: { sql(text: string): Promise<Row[]> }): Promise<Incarnation> {
  const [row] = await database.sql(
    'select c.boot, k.boot as canary, c.base from $schema.cluster c left join $schema.canary k on true',
  )
  if (!row) throw new Error('there is no cluster row')
  return { boot: row.boot, canary: row.canary, base: BigInt(row.base) }
}
