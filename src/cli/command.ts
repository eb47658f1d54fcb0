import { createRequire } from 'node:module'
import { Command, CommanderError } from 'commander'
import { electVerb } from './election/elect.ts'
import { leaderVerb } from './election/leader.ts'
import { exitCode } from './exit-codes.ts'
import { migrateCommand } from './migrate.ts'
import { redact } from './output.ts'
import { asksForJson, printError, report } from './report.ts'
import { Notes } from './run/notes.ts'
import { runVerb } from './run/verb.ts'
import { schedulesVerb } from './schedule/listing.ts'
import { scheduleVerb } from './schedule/verb.ts'
import { baseVerb } from './sight/base.ts'
import { healthVerb } from './sight/health.ts'
import { inspectVerb } from './sight/inspect.ts'
import { releaseVerb } from './sight/release.ts'
import { statusVerb } from './sight/status.ts'

/** Their stdout is the command's: what they say themselves goes to stderr. */
const running: ReadonlySet<string> = new Set(['run', 'elect', 'schedule'])

/**
 * Runs one call of the `fencepost` command and answers its exit code. A verb is a file of its own that makes a
 * `Command`; its action throws, or hands over the exit code.
 */
export async function runCommand(args: readonly string[]): Promise<number> {
  let code: number = exitCode.ok
  const finish = (found: number) => {
    code = found
  }
  const { version } = createRequire(import.meta.url)('../../package.json') as { version: string }
  const program = new Command('fencepost')
    .version(version)
    .description('Locks on PostgreSQL that wait in line, expire with their holder and carry a fencing token.')
    .addCommand(runVerb(finish))
    .addCommand(scheduleVerb(finish))
    .addCommand(schedulesVerb(finish))
    .addCommand(electVerb(finish))
    .addCommand(leaderVerb(finish))
    .addCommand(statusVerb(finish))
    .addCommand(inspectVerb(finish))
    .addCommand(releaseVerb(finish))
    .addCommand(healthVerb(finish))
    .addCommand(baseVerb(finish))
    .addCommand(migrateCommand(finish))
  const json = asksForJson(args)
  for (const command of [program, ...program.commands]) {
    command
      .exitOverride()
      .showHelpAfterError('(--help shows the options)')
      .configureOutput({ writeErr: text => void (json || process.stderr.write(redact(text))) })
  }
  try {
    await program.parseAsync(args, { from: 'user' })
    return code
  } catch (error) {
    if (!(error instanceof CommanderError)) return report(error, json)
    // Help and version end here, too, with 0. To people commander has said it.
    if (error.exitCode === 0) return exitCode.ok
    if (json) tellUsage(error.message.replace(/^error: /, ''), running.has(args[0] ?? ''))
    return exitCode.usage
  }
}

/** Wrong usage, as JSON. @param aside on stderr, as an event */
function tellUsage(message: string, aside: boolean): void {
  if (aside) new Notes(true).say('error', { code: 'usage', message })
  else printError({ code: 'usage', message })
}
