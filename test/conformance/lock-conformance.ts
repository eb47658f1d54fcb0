import { describe } from 'vitest'
import { closing } from './behaviours/closing.ts'
import { exclusion } from './behaviours/exclusion.ts'
import { givingUp } from './behaviours/giving-up.ts'
import { holding } from './behaviours/holding.ts'
import { limits } from './behaviours/limits.ts'
import { line } from './behaviours/line.ts'
import { losing } from './behaviours/losing.ts'
import { pool } from './behaviours/pool.ts'
import { releasing } from './behaviours/releasing.ts'
import { sections } from './behaviours/sections.ts'
import { exclusive, type MakeKind } from './kinds.ts'
import { type MakeWay, Stage } from './stage.ts'

/** Declares what every way of connecting must do, with every kind of lock. In files of their own they run beside each other. */
export function lockConformance(name: string, make: MakeWay, kind: MakeKind = exclusive): void {
  describe(name, () => {
    const stage = new Stage(make, kind)
    const suites = { exclusion, line, givingUp, releasing, sections, holding, losing, closing, limits, pool }
    for (const [subject, declare] of Object.entries(suites)) describe(subject, () => declare(stage))
  })
}
