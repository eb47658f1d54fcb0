import { Command } from 'commander'
import { exitCode } from '../exit-codes.ts'
import { print } from '../output.ts'
import { asking, printJson, type SightFlags, withSightOptions } from './client.ts'
import { heldTable, pendingTable } from './listing.ts'

/** `fencepost status`: who holds and who waits, of all keys of the schema. */
export function statusVerb(finish: (code: number) => void): Command {
  const verb = new Command('status').description('Show who holds which key, and who waits for it.')
  return withSightOptions(verb).action(async (flags: SightFlags) => {
    const { held, pending } = await asking(verb, flags, fp => fp.query())
    if (flags.json) printJson({ schema: flags.schema, held, pending })
    else {
      print(held.length === 0 ? 'nothing is held' : heldTable(held))
      if (pending.length > 0) print(`\n${pendingTable(pending)}`)
    }
    finish(exitCode.ok)
  })
}
