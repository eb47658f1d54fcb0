import type { Command } from 'commander'
import { Fencepost } from '../../fencepost.ts'
import { requireUrl, schemaOption, urlOption } from '../database-options.ts'
import { print } from '../output.ts'

export interface SightFlags {
  readonly url?: string
  readonly schema: string
  readonly json?: true
}

/** The options that every verb for people has. */
export function withSightOptions(verb: Command): Command {
  return verb.addOption(urlOption()).addOption(schemaOption()).option('--json', 'print one line of JSON')
}

/** Asks with a client of its own, that waits for nothing and holds nothing. */
export async function asking<T>(
  verb: Command,
  flags: SightFlags,
  ask: (fp: Fencepost) => Promise<T>,
): Promise<T> {
  const fp = new Fencepost({
    connectionString: requireUrl(verb, flags.url),
    schema: flags.schema,
    listen: false,
  })
  try {
    return await ask(fp)
  } finally {
    await fp.close({ timeout: 0 })
  }
}

/** One line. Tokens are text: they do not fit a JSON number. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value, (_, field) => (typeof field === 'bigint' ? String(field) : field)))
}
