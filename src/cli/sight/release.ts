import { Command } from 'commander'
import type { ForcedRelease } from '../../sight/force-release.ts'
import { wholeToken } from '../arguments.ts'
import { exitCode } from '../exit-codes.ts'
import { print } from '../output.ts'
import { duration, visible } from '../table.ts'
import { asking, printJson, type SightFlags, withSightOptions } from './client.ts'

interface ReleaseFlags extends SightFlags {
  readonly reason: string
  readonly token?: bigint
  readonly now?: true
}

/** `fencepost release`: takes a key from whoever holds it. */
export function releaseVerb(finish: (code: number) => void): Command {
  const verb = new Command('release')
    .description("Take a key from its holder, who is told at its next heartbeat. Wants the operator's role.")
    .argument('<key>', 'the whole key, namespace included')
    .requiredOption('--reason <text>', 'why; kept in the table events, with who and when')
    .option('--token <token>', 'only while it is held under this token', wholeToken)
    .option('--now', 'do not wait for the holder: until it knows, two work under one key')
  return withSightOptions(verb).action(async (key: string, flags: ReleaseFlags) => {
    const { reason, token, now = false } = flags
    const answer = await asking(verb, flags, fp => fp.forceRelease(key, { reason, token, now }))
    if (flags.json) printJson({ schema: flags.schema, key, ...answer })
    else print(describe(key, answer))
    finish(answer.outcome === 'absent' ? exitCode.failed : exitCode.ok)
  })
}

function describe(key: string, { outcome, token, movesWithin }: ForcedRelease): string {
  const grant = `${visible(key)}, held under token ${token},`
  if (outcome === 'absent') return `nobody holds ${visible(key)}, or not under that token: nothing was done`
  if (outcome === 'released') return `${grant} was released`
  if (outcome === 'pinned') return `${grant} moves on when the transaction that is open under it ends`
  return `${grant} moves on when its holder knows, within ${duration(movesWithin ?? 0)}`
}
