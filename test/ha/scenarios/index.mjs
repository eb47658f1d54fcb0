import { awayForAMinute } from './away-for-a-minute.mjs'
import { killedAsynchronous } from './killed-asynchronous.mjs'
import { killedPrimary } from './killed-primary.mjs'
import { maintenance } from './maintenance.mjs'
import { minorities } from './minorities.mjs'
import { restored } from './restored.mjs'
import { sameTimeline } from './same-timeline.mjs'
import { split } from './split.mjs'
import { stoppedPrimary } from './stopped-primary.mjs'
import { wrongClocks } from './wrong-clocks.mjs'

/**
 * By their numbers in docs/high-availability.md. `run` answers what the record broke, and by name figures, in seconds, and counts; `own`: not
 * on the cluster of the others; `isApart`: in a process with a network of its own.
 *
 * @type {{ number: number, name: string, own?: () => any, isApart?: boolean, run(stage: any, options: { isFull: boolean }): Promise<{ violations: any[], figures: Record<string, number>, counts?: Record<string, number> }> }[]}
 */
export const scenarios = [
  minorities,
  killedPrimary,
  killedAsynchronous,
  sameTimeline,
  split,
  stoppedPrimary,
  maintenance,
  wrongClocks,
  restored,
  awayForAMinute,
]
