import { Command } from 'commander'
import type { Held } from '../../sight/query.ts'
import { exitCode } from '../exit-codes.ts'
import { print } from '../output.ts'
import { duration, table, visible } from '../table.ts'
import { asking, printJson, type SightFlags, withSightOptions } from './client.ts'
import { heldTable, modeOf, nameOf, pendingTable } from './listing.ts'

/** `fencepost inspect`: all that is known of one key. */
export function inspectVerb(finish: (code: number) => void): Command {
  const verb = new Command('inspect')
    .description('Show all that is known of one key.')
    .argument('<key>', 'the whole key, namespace included')
  return withSightOptions(verb).action(async (key: string, flags: SightFlags) => {
    const { held, pending } = await asking(verb, flags, fp => fp.query({ key }))
    if (flags.json) printJson({ schema: flags.schema, key, held, pending })
    else {
      const [holder, ...others] = held
      if (!holder) print(`nobody holds ${visible(key)}`)
      else print(others.length === 0 ? describe(holder) : heldTable(held))
      if (pending.length > 0) print(`\n${pendingTable(pending)}`)
    }
    finish(exitCode.ok)
  })
}

function describe(held: Held): string {
  return table(
    ['key', held.key],
    [
      ['state', held.state],
      ['token', held.token],
      ['mode', modeOf(held)],
      ['holder', nameOf(held)],
      ['application', held.application],
      ['label', held.label],
      ['metadata', held.metadata === null ? null : JSON.stringify(held.metadata)],
      ['since', held.since.toISOString()],
      ['ttl left', duration(held.ttlLeft)],
      ['waiting', held.waiting],
    ],
  )
}
