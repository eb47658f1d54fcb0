// That nothing is missed which lasts longer than the poll interval, by a clock that the test moves: looks are answered late, and
// tell of any moment between the question and the answer.
import fc from 'fast-check'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { LeaderRow } from '../../src/database/sight-calls.ts'
import type { Leader } from '../../src/election/leader.ts'
import { Observer } from '../../src/election/observer.ts'
import { UnreachableError } from '../../src/index.ts'

const poll = 200
/** None that an observer would count by itself. */
const ttl = 3_600_000

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** What the record says, from a moment on: a token, or that nobody leads. */
interface Reign {
  readonly from: number
  readonly token: number | null
}

function rowOf(token: number | null | undefined): LeaderRow | undefined {
  if (token == null) return undefined
  return {
    identity: `of ${token}`,
    value: null,
    token: String(token),
    owner: null,
    since: 0,
    renewedAt: 0,
    ttl,
    expiresIn: ttl,
  }
}

/** One after the other, for so long each; a leader is followed by a vacancy or by the next leader. */
function reigns(spans: readonly { readonly lasts: number; readonly leads: boolean }[]): Reign[] {
  let [from, token] = [0, 0]
  const all: Reign[] = []
  for (const { lasts, leads } of spans) {
    const isVacant = !leads && all.at(-1)?.token !== null
    all.push({ from, token: isVacant ? null : ++token })
    from += lasts
  }
  return all
}

const wait = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms))
const tokenOf = (leader: Leader | null) => leader && Number(leader.token)

const nothing = Promise.resolve(undefined)

/** All that an observer has kept by now. */
async function readAll(observer: Observer): Promise<(number | null)[]> {
  const shown: (number | null)[] = []
  for (;;) {
    const read = await Promise.race([observer.next(), nothing])
    if (read === undefined) return shown
    shown.push(tokenOf(read.value as Leader | null))
  }
}

test('whatever lasts longer than the poll interval is shown, while answers take half of it at most', async () => {
  const span = fc.record({ lasts: fc.integer({ min: poll + 1, max: 3 * poll }), leads: fc.boolean() })
  const answer = fc.record({
    takes: fc.integer({ min: 0, max: poll / 2 }),
    of: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.array(span, { minLength: 1, maxLength: 8 }),
      fc.array(answer, { minLength: 1, maxLength: 20 }),
      async (spans, answers) => {
        const began = performance.now()
        const all = reigns(spans)
        let looks = 0
        const observer = new Observer({
          poll,
          signals: [],
          wasReached: () => true,
          look: async () => {
            const { takes, of } = answers[looks++ % answers.length] as (typeof answers)[number]
            const seen = performance.now() - began + takes * of
            await wait(takes)
            return rowOf(all.findLast(({ from }) => from <= seen)?.token)
          },
        })
        const first = observer.next()
        // Nobody reads meanwhile.
        await vi.advanceTimersByTimeAsync(spans.reduce((sum, { lasts }) => sum + lasts, 0) + 2 * poll)
        const shown = [tokenOf((await first).value as Leader | null), ...(await readAll(observer))]
        await observer.return()
        expect(shown).toEqual(all.map(({ token }) => token))
      },
    ),
    { numRuns: 60 },
  )
})

test('while the database is away nothing is shown, and what is there afterwards is', async () => {
  let says: () => Promise<LeaderRow | undefined> = async () => rowOf(1)
  const observer = new Observer({ poll, signals: [], wasReached: () => true, look: () => says() })
  expect(tokenOf((await observer.next()).value as Leader | null)).toBe(1)
  says = () => Promise.reject(new UnreachableError('away'))
  const next = observer.next()
  let isRead = false
  void next.then(() => {
    isRead = true
  })
  await vi.advanceTimersByTimeAsync(20 * poll)
  expect(isRead).toBe(false)
  says = async () => rowOf(7)
  await vi.advanceTimersByTimeAsync(poll)
  expect(tokenOf((await next).value as Leader | null)).toBe(7)
  await observer.return()
})
