import { janitor, sessionId } from './calls.ts'
import type { Instrumented } from './instrument/instrument.ts'
import type { Program } from './program.ts'
import { Record } from './record.ts'
import { type Choice, Schedule } from './schedule.ts'
import type { Stage } from './stage.ts'
import { Violation } from './state.ts'

export interface SearchOptions {
  /**
   * Stop between the statements of the functions, and inside of them, or only between a call and its commit.
   * @default 'statements'
   */
  readonly grain?: 'statements' | 'calls'
  /** How often an actor that could go on is left standing for another. @default no bound */
  readonly depth?: number
  /** How many backends are terminated in one schedule. @default 0 */
  readonly kills?: number
  /** Terminate in the middle of functions, too. @default false */
  readonly killsInside?: boolean
  /** Go on with only one of several orders that make no difference. @default true */
  readonly reduce?: boolean
}

export interface Found {
  readonly program: string
  /** Runs from the beginning on. */
  readonly schedules: number
  /** Of these, the ones that were run to their end. */
  readonly finished: number
  /** Of these, the ones in which a backend was terminated. */
  readonly killed: number
  /**
   * Given up, because several backends that wake from one wait never did so in the order in which they once did. The
   * other order is explored where one of them comes later.
   */
  readonly unreached: number
  /** Points at which an actor has stood, by name. */
  readonly visited: ReadonlySet<string>
  /** What schedules have ended in, before time passed. */
  readonly ends: ReadonlySet<string>
  /** Different states, by their histories. */
  readonly states: number
  readonly steps: number
  readonly seconds: number
  /** The first violation, and the schedule that leads to it, in words. */
  readonly violation?: { readonly message: string; readonly schedule: readonly string[] }
}

/** Tries every schedule within the bounds, depth first; ends with the first violation. */
export async function search(
  program: Program,
  stage: Stage,
  protocol: Instrumented,
  options: SearchOptions,
): Promise<Found> {
  const { depth = Number.POSITIVE_INFINITY, kills = 0, killsInside = false, reduce = true } = options
  const names = new Map<string, number>()
  const ends = new Set<string>()
  const visited = new Set<number>()
  const seen = new Map<string, number>()
  const tally = { schedules: 0, finished: 0, unreached: 0, killed: 0, steps: 0 }
  const started = performance.now()
  const found = () => ({
    program: program.name,
    ...tally,
    states: seen.size,
    seconds: (performance.now() - started) / 1000,
    visited: new Set([...visited].map(id => protocol.points.get(id)?.name ?? '')),
    ends,
  })

  // With a bound it matters who moved last: going on with him is free.
  const isNew = (schedule: Schedule, choice: Choice, budget: number) => {
    if (!reduce) return true
    const key = schedule.keyAfter(choice) + (depth === Number.POSITIVE_INFINITY ? '' : `|${choice.actor}`)
    if ((seen.get(key) ?? -1) >= budget) return false
    seen.set(key, budget)
    return true
  }

  const open: Open[] = [{ prefix: [], budget: depth, from: '', tries: 0 }]
  for (let next = open.pop(); next; next = open.pop()) {
    const taken = [...next.prefix]
    const { budget } = next
    let last = taken.at(-1)?.actor
    const schedule = new Schedule(program, stage, protocol, await begin(program, stage), {
      names,
      ends,
      visited,
      kills,
      killsInside,
    })
    tally.schedules++
    try {
      if (!(await follow(schedule, next))) {
        if (next.tries < 30) open.push({ ...next, tries: next.tries + 1 })
        else tally.unreached++
        continue
      }
      tally.steps += taken.length
      for (;;) {
        const unnoticed = reduce ? schedule.unnoticed() : undefined
        if (unnoticed) {
          await schedule.take(unnoticed)
          taken.push(unnoticed)
          tally.steps++
          continue
        }
        const choices = schedule.choices()
        const goesOn = choices.find(choice => choice.actor === last && choice.act === 'step')
        const first = goesOn ?? choices.find(choice => choice.act === 'step')
        if (!first) {
          await schedule.finish()
          tally.finished++
          if (schedule.kills > 0) tally.killed++
          break
        }
        for (const choice of choices) {
          if (choice === first) continue
          const left = budget - (goesOn && choice.actor !== last ? 1 : 0)
          if (left >= 0 && isNew(schedule, choice, left))
            open.push({ prefix: [...taken, choice], budget: left, from: schedule.key, tries: 0 })
        }
        if (!isNew(schedule, first, budget)) break
        await schedule.take(first)
        taken.push(first)
        last = first.actor
        tally.steps++
      }
    } catch (error) {
      if (!(error instanceof Violation))
        throw new Error(`${program.name}: after\n${schedule.words.join('\n')}`, { cause: error })
      return { ...found(), violation: { message: error.message, schedule: schedule.words } }
    }
  }
  return found()
}

/** What is still to be tried: the last choice of `prefix`, in the state that the others have led to. */
interface Open {
  readonly prefix: readonly Choice[]
  readonly budget: number
  readonly from: string
  readonly tries: number
}

/** Answers false where the same choices have led somewhere else. */
async function follow(schedule: Schedule, { prefix, from }: Open): Promise<boolean> {
  for (const [index, choice] of prefix.entries()) {
    if (index === prefix.length - 1 && schedule.key !== from) return false
    if (!schedule.choices().some(({ actor, act }) => actor === choice.actor && act === choice.act))
      return false
    await schedule.take(choice)
  }
  return true
}

async function begin(program: Program, stage: Stage): Promise<Record> {
  const record = new Record(await stage.restore())
  for (const [name, ttl] of Object.entries(program.sessions)) record.clients.open(sessionId(name), ttl)
  record.clients.open(janitor, 60)
  for (const step of program.before ?? [])
    if (typeof step !== 'number') record.clients.sent(step, step.generation)
  record.begin()
  for (const call of program.onTheWay ?? []) record.clients.sent(call, call.generation)
  return record
}
