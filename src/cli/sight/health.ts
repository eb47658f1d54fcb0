import { Command } from 'commander'
import { exitCode } from '../exit-codes.ts'
import { print } from '../output.ts'
import { codeOf } from '../report.ts'
import { table } from '../table.ts'
import { asking, printJson, type SightFlags, withSightOptions } from './client.ts'

interface HealthFlags extends SightFlags {
  readonly timeout: string
}

/** `fencepost health`: whether locks can be taken; the exit code is the answer, for a probe. */
export function healthVerb(finish: (code: number) => void): Command {
  const verb = new Command('health')
    .description('Ask whether a primary with the schema answers; exit 0 if so. For a probe.')
    .option('--timeout <duration>', 'how long the database may take to answer', '5s')
  return withSightOptions(verb).action(async (flags: HealthFlags) => {
    const { timeout, schema } = flags
    // Of what else there is to say this client, made to ask, is no example.
    const { reached, error, incarnation } = await asking(verb, flags, fp => fp.health({ timeout }))
    const why = error === null ? null : { code: error.code, message: error.message }
    if (flags.json) printJson({ schema, reached, error: why, incarnation })
    else {
      const since = incarnation?.since.toISOString() ?? null
      const life = incarnation === null ? null : `${incarnation.boot}, since ${since}`
      print(
        table(
          ['reached', reached ? 'yes' : 'no'],
          [
            ['error', error === null ? null : `${error.message} (${error.code})`],
            ['incarnation', life],
            ['quarantined until', incarnation?.quarantinedUntil?.toISOString() ?? null],
          ],
        ),
      )
    }
    finish(error === null ? exitCode.ok : codeOf(error))
  })
}
