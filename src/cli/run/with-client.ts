import { Fencepost } from '../../fencepost.ts'
import { within } from '../../within.ts'
import type { Plan } from './plan.ts'

/** Milliseconds. */
const closePatience = 3_000

/** With a client of its own, which is closed in the end. */
export async function withClient(
  { schema, ttl }: Plan,
  url: string,
  work: (fp: Fencepost) => Promise<number>,
): Promise<number> {
  const fp = new Fencepost({ connectionString: url, schema, ttl })
  try {
    return await work(fp)
  } finally {
    // Where the database is away nobody is to wait for it: what cannot be given back ends with the session.
    await within(fp.close({ timeout: 0 }), closePatience)
  }
}
