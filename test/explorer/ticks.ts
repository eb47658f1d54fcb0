import type { Call, Reply } from './calls.ts'
import { onceOf, scheduleOf, startedOf } from './schedule-calls.ts'
import { grantsOf, type State, type TickRow, Violation } from './state.ts'

/** What may become of a tick in one commit: that it was lost and is started again, too. */
const next: Readonly<Record<TickRow['state'] | 'nothing', readonly TickRow['state'][]>> = {
  nothing: ['due', 'started', 'skipped', 'missed'],
  due: ['started'],
  started: ['finished', 'failed', 'due', 'started'],
  finished: [],
  failed: [],
  skipped: [],
  missed: [],
}

/** What happened to schedules, and to what is done once, and whether it may. */
export class Ticks {
  /** Under which token each attempt was told. */
  readonly #told = new Map<string, number | undefined>()

  /** A commit, or time, has made this state of that one. */
  became(before: State, state: State): void {
    for (const tick of state.ticks) this.#checkTick(tick, before, state)
    for (const schedule of state.schedules) {
      const { name, upto } = schedule
      const old = before.schedules.find(each => each.name === name)
      if (old && upto < old.upto)
        throw new Violation(`${name} was decided up to ${old.upto}, and is up to ${upto}`)
      const running = state.ticks.filter(tick => tick.name === name && tick.state === 'started')
      if (running.length > 1) throw new Violation(`${running.length} ticks of ${name} run at once`)
      this.#checkRuling(schedule, state)
    }
    this.#checkOnce(before, state)
  }

  /** A call was answered; `state` is what was committed by it. */
  answered(call: Call, { error, answers }: Reply, state: State): void {
    const [lease] = call.places
    if (error !== undefined || !lease) return
    if (call.function === 'announce_schedule' && !state.schedules.some(({ name }) => name === lease.key))
      throw new Violation(`${call.words}, and there is none`)
    if (call.function === 'take_tick') {
      const started = startedOf(answers[0]?.outcome)
      if (!started) return
      const name = `${scheduleOf(lease)}, slot ${started.slot}, attempt ${started.attempt}`
      if (this.#told.has(name) && this.#told.get(name) !== lease.token)
        throw new Violation(`${name} was started under ${this.#told.get(name)}, and under ${lease.token}`)
      this.#told.set(name, lease.token)
    }
    if (call.function === 'record_once') {
      const kept = state.once.find(({ key }) => key === onceOf(lease))
      if (!kept || kept.token < (lease.token ?? 0)) throw new Violation(`${call.words}, and that is not kept`)
    }
  }

  #checkTick(tick: TickRow, before: State, state: State): void {
    const { name, slot, attempt, token } = tick
    const old = before.ticks.find(each => each.name === name && each.slot === slot)
    if (JSON.stringify(old) === JSON.stringify(tick)) return
    const what = `the tick of ${name} at ${slot}`
    const was = old?.state ?? 'nothing'
    if (!next[was].includes(tick.state)) throw new Violation(`${what} was ${was}, and is ${tick.state}`)
    const starts = attempt - (old?.attempt ?? 0)
    if (starts !== (tick.state === 'started' ? 1 : 0))
      throw new Violation(`${what} is ${tick.state}, and was started ${starts} times in one commit`)
    if (slot > state.clock) throw new Violation(`${what} is recorded at ${state.clock}`)
    const schedule = state.schedules.find(each => each.name === name)
    if (!schedule || schedule.upto < slot) throw new Violation(`${what} is recorded and not decided`)
    if (attempt > schedule.attempts) throw new Violation(`${what} was started ${attempt} times`)
    const [lease] = grantsOf(state).filter(({ key }) => key === `${name}:schedule`)
    if (!lease) throw new Violation(`${what} is ${tick.state}, and nobody has the lease`)
    if (tick.state === 'started' && lease.token !== token)
      throw new Violation(`${what} was started under ${token}, and the lease is held under ${lease.token}`)
    if (was !== 'started') return
    if (tick.state === 'started' && token === old?.token)
      throw new Violation(`${what} was started again under ${token}`)
    const isOwn = lease.token === old?.token
    if (lease.token < (old?.token ?? 0) || (tick.state === 'finished' && !isOwn))
      throw new Violation(`${what} was started under ${old?.token}, and is ${tick.state} by ${lease.token}`)
  }

  #checkOnce(before: State, state: State): void {
    for (const row of state.once) {
      const { key, token, result } = row
      const old = before.once.find(each => each.key === key)
      if (JSON.stringify(old) === JSON.stringify(row)) continue
      if (old && token <= old.token)
        throw new Violation(
          `the result of ${key} was ${old.result} under ${old.token}, and is ${result} under ${token}`,
        )
      const [lease] = grantsOf(state).filter(grant => grant.key === `${key}:once`)
      if (lease?.token !== token)
        throw new Violation(
          `the result of ${key} was recorded under ${token}, and the lease is ${lease?.token ?? 'nobody'}'s`,
        )
    }
    for (const { key, keptUntil } of before.once) {
      if (keptUntil > state.clock && !state.once.some(each => each.key === key))
        throw new Violation(`the result of ${key} is gone before its time`)
    }
  }

  #checkRuling({ name, cron, version }: State['schedules'][number], { nodes }: State): void {
    const own = nodes.filter(node => node.name === name)
    const highest = Math.max(-1, ...own.map(node => node.version ?? -1))
    if (own.length === 0) return
    if (highest !== (version ?? -1))
      throw new Violation(`${name} runs by version ${version}, and a node has ${highest}`)
    if (!own.some(node => node.cron === cron && (node.version ?? -1) === highest))
      throw new Violation(`${name} runs by a definition that no node has`)
  }
}
