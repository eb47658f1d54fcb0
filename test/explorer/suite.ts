import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { twistName } from '../support/settings.ts'
import { counts, Explorer } from './explorer.ts'
import type { Edit } from './instrument/instrument.ts'
import type { Program } from './program.ts'
import type { Found, SearchOptions } from './search.ts'

/** How often an actor that could go on is left standing for another; `npm run explore -- --depth N` goes deeper. */
const depth = Number(process.env.FENCEPOST_EXPLORE_DEPTH || 1)
/** How many backends are terminated in a schedule that stops between statements. */
const kills = Number(process.env.FENCEPOST_EXPLORE_KILLS || 0)
const timeout = depth > 1 || kills > 0 ? 24 * 3_600_000 : 180_000

interface Suite {
  readonly programs: readonly Program[]
  /** Every gate in these must have been stood at, where it counts in any of the programs. */
  readonly functions: readonly string[]
  /** Except those whose names begin so. */
  readonly unreached?: readonly string[]
  readonly edits?: readonly Edit[]
}

/** Explores each program at both grains, and says how much that was. */
export function explorations({ programs, functions, unreached = [], edits = [] }: Suite): void {
  let db: TestDatabase
  let explorer: Explorer
  const found: Found[] = []

  // How the product connects makes no difference to what its functions do: once is enough.
  describe.skipIf(twistName !== 'none')('every interleaving', () => {
    beforeAll(async () => {
      db = await createDatabase()
      explorer = await Explorer.install(db.url, db.schema, edits)
    })
    afterAll(async () => {
      await db?.drop()
      console.log(account(found))
    })

    describe.each(programs)('$name', program => {
      test.each([atCalls(program), atStatements])('$what', { timeout }, async ({ what: _, ...bounds }) => {
        const one = await explorer.explore(program, bounds)
        found.push(one)
        expect(one.violation).toBeUndefined()
        expect(one.finished).toBeGreaterThan(0)
        const mortal = program.actors.some(({ killed }) => killed !== false)
        expect(one.killed > 0).toBe(bounds.kills !== 0 && mortal)
      })
    })

    test('every gate has been stood at', ({ skip }) => {
      skip(found.length < programs.length * 2, 'not every program was run')
      const points = [...explorer.protocol.points.values()].filter(point =>
        programs.some(program => counts(point, program)),
      )
      const wanted = points
        .map(({ name }) => name)
        .filter(name => functions.includes(name.split(':')[0] ?? ''))
      const stood = new Set(found.flatMap(({ visited }) => [...visited]))
      expect(
        wanted.filter(name => !stood.has(name) && !unreached.some(prefix => name.startsWith(prefix))),
      ).toEqual([])
    })
  })
}

// Two can be tried in every order; with more, orders of whole calls.
function atCalls({ actors, clock }: Program): SearchOptions & { what: string } {
  const movers = actors.length + (clock ? 1 : 0)
  return {
    what: 'between calls and commits, a backend terminated before or after each commit',
    grain: 'calls',
    kills: 1,
    depth: movers > 2 ? depth - 1 : Number.POSITIVE_INFINITY,
  }
}

const atStatements: SearchOptions & { what: string } = {
  what: `between and inside of statements, ${depth} deep, ${kills} backends terminated`,
  depth,
  kills,
  killsInside: true,
}

function account(found: readonly Found[]): string {
  const sum = (pick: (one: Found) => number) => found.reduce((total, one) => total + pick(one), 0)
  const lines = found.map(
    ({ schedules, states, seconds, program }) =>
      `${String(schedules).padStart(7)} schedules, ${String(states).padStart(7)} states, ${seconds.toFixed(1).padStart(6)} s  ${program}`,
  )
  return [
    `explored to depth ${depth}:`,
    ...lines,
    `${sum(one => one.schedules)} schedules, ${sum(one => one.states)} states, ${sum(one => one.steps)} steps, ${sum(one => one.seconds).toFixed(1)} s, ${sum(one => one.unreached)} given up`,
  ].join('\n')
}
