import { Command } from 'commander'
import type { ScheduleOverview } from '../../schedule/overview.ts'
import { exitCode } from '../exit-codes.ts'
import { print } from '../output.ts'
import { asking, printJson, type SightFlags, withSightOptions } from '../sight/client.ts'
import { type Cell, table } from '../table.ts'

/** `fencepost schedules`: all schedules of the schema, with their last and next ticks. */
export function schedulesVerb(finish: (code: number) => void): Command {
  const verb = new Command('schedules').description('Show schedules: last and next ticks, and what is amiss.')
  return withSightOptions(verb).action(async (flags: SightFlags) => {
    const schedules = await asking(verb, flags, fp => fp.schedules())
    if (flags.json) printJson({ schema: flags.schema, schedules })
    else print(schedules.length === 0 ? 'nothing is scheduled' : schedulesTable(schedules))
    finish(exitCode.ok)
  })
}

function schedulesTable(schedules: readonly ScheduleOverview[]): string {
  const head = [
    'NAME',
    'CRON',
    'TIMEZONE',
    'LAST',
    'STATE',
    'NEXT',
    'RUNNING',
    'DUE',
    'MISSED',
    'SKIPPED',
    'FAILED',
    'NODES',
    'DRIFT',
  ]
  const rows = schedules.map(({ name, cron, timezone, last, next, counts, nodes, drift }): Cell[] => [
    name,
    cron,
    timezone,
    last && time(last.slot),
    last?.state ?? null,
    next && time(next),
    counts.started,
    counts.due,
    counts.missed,
    counts.skipped,
    counts.failed,
    nodes,
    drift.length === 0 ? null : drift.map(each => each.owner ?? '?').join(', '),
  ])
  return table(head, rows)
}

/** To the second: slots have no less. */
const time = (at: Date): string => at.toISOString().replace('.000', '')
