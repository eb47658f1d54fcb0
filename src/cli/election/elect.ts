import { Command } from 'commander'
import { type ElectionOptions, readElection } from '../../election/options.ts'
import { AbortedError, BadOptionError } from '../../errors.ts'
import { requireUrl, schemaOption, urlOption } from '../database-options.ts'
import { attend } from '../run/attend.ts'
import type { Notes } from '../run/notes.ts'
import { type Plan, type RunFlags, readPlan } from '../run/plan.ts'
import { runUnder } from '../run/run-under.ts'
import type { Signals } from '../run/signals.ts'
import { withClient } from '../run/with-client.ts'

interface ElectFlags extends Omit<RunFlags, 'wait'> {
  readonly value?: string
  readonly takeover: string
  readonly takeoverGrace?: string
}

/** `fencepost elect`: runs a command while it leads. */
export function electVerb(finish: (code: number) => void): Command {
  const verb = new Command('elect')
    .description('Run a command as the leader, once elected; it finds its term in FENCEPOST_TOKEN.')
    .argument('<name>', 'the election')
    .argument('<command...>', 'after --: the command, and its arguments')
    .usage('<name> [options] -- <command...>')
    .addOption(urlOption())
    .addOption(schemaOption())
    .option('--ttl <duration>', 'how long a leader outlives its process', '30s')
    .option('--value <text>', 'what the leader says of itself, an address for instance')
    .option('--timeout <duration>', 'how long to wait to be elected; exit 75 then (default: for ever)')
    .option(
      '--takeover <how>',
      'fast: a leader is gone when its connection is, for the grace, and not its ttl alone',
      'ttl',
    )
    .option('--takeover-grace <duration>', 'of --takeover fast: how long that may be gone (default: 3s)')
    .option(
      '--grace <duration>',
      'from SIGTERM to SIGKILL when the term is lost; at most ttl/3, or a third of the takeover grace',
      '5s',
    )
    .option('--foreground', 'leave the command in our process group, with our terminal')
    .option('--json', 'what is said on stderr: one line of JSON each')
  return verb.action(async (name: string, command: string[], flags: ElectFlags) => {
    const url = requireUrl(verb, flags.url)
    finish(
      await attend(name, flags.json === true, (notes, signals) => {
        const plan = readPlan(name, command, { ...flags, wait: true })
        const options = readOptions(flags)
        // There is to be time for it when trust, which is no longer than that, comes to its end.
        const { grace = plan.ttl } = readElection(options, plan.ttl)
        const mended = { ...plan, grace: Math.min(plan.grace, Math.floor(grace / 3)) }
        return runElected(mended, options, url, notes, signals)
      }),
    )
  })
}

/** @throws BadOptionError, before anything is started */
function readOptions({ value, takeover, takeoverGrace: grace }: ElectFlags): ElectionOptions {
  if (takeover !== 'ttl' && takeover !== 'fast') throw new BadOptionError("--takeover: want 'ttl' or 'fast'")
  return grace === undefined ? { value, takeover } : { value, takeover, grace }
}

/** Campaigns, runs, resigns; answers the exit code. @throws what `campaign` throws: the command was not started */
function runElected(
  plan: Plan,
  options: ElectionOptions,
  url: string,
  notes: Notes,
  signals: Signals,
): Promise<number> {
  const { key, timeout } = plan
  return withClient(plan, url, async fp => {
    const election = fp.election(key, options)
    const { lock } = await election.campaign({ timeout, signal: signals.gaveUp })
    // The election and the signal may meet.
    if (signals.gaveUp.aborted) throw new AbortedError(key, signals.gaveUp.reason)
    const env = { ...plan.env, FENCEPOST_IDENTITY: election.identity }
    return await runUnder(lock, { ...plan, env }, notes, signals, () => election.resign())
  })
}
