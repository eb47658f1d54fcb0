import { Command } from 'commander'
import { exitCode } from '../exit-codes.ts'
import { print } from '../output.ts'
import { asking, printJson, type SightFlags, withSightOptions } from './client.ts'

interface BaseFlags extends SightFlags {
  readonly raise?: true
  readonly reason?: string
}

/** `fencepost base`: from where tokens are counted, and raising it by hand. */
export function baseVerb(finish: (code: number) => void): Command {
  const verb = new Command('base')
    .description('Show from where tokens are counted, or raise it after a restore of data alone.')
    .option('--raise', "raise it above every token there was; wants the operator's role")
    .option('--reason <text>', 'with --raise: why; kept in the table events, with who and when')
  return withSightOptions(verb).action(async (flags: BaseFlags) => {
    const { raise = false, reason } = flags
    if (raise !== (reason !== undefined)) verb.error('error: --raise and --reason go together')
    const base = await asking(verb, flags, fp =>
      reason === undefined ? fp.tokenBase() : fp.raiseBase({ reason }),
    )
    if (flags.json) printJson({ schema: flags.schema, base, raised: raise })
    else if (base === null) print('no token base yet: nobody has taken a lock in this life of the server')
    else print(raise ? `raised the token base to ${base}` : `token base ${base}`)
    finish(exitCode.ok)
  })
}
