import type { Reply } from './calls.ts'
import { inCycle } from './deadlock.ts'
import { Effects } from './effects.ts'
import { nothing, union } from './instrument/footprint.ts'
import type { Instrumented } from './instrument/instrument.ts'
import { checkQuiet, type Program } from './program.ts'
import type { Record } from './record.ts'
import { isGuard, isNoticed, type Role, start } from './role.ts'
import type { Stage } from './stage.ts'
import { type Finish, type State, Violation } from './state.ts'
import { type Access, atEnd, clockMoves, Trace, whileOpen } from './trace.ts'
import { Words } from './words.ts'

/**
 * What comes next: an actor goes on to the next point (`step`), its backend is terminated where it stands (`kill`), or
 * right after its commit, before the answer is out (`lose`). The clock is the actor after the last.
 */
export interface Choice {
  readonly actor: number
  readonly act: 'step' | 'kill' | 'lose'
}

export interface ScheduleOptions {
  readonly names: Map<string, number>
  /** Summaries of what schedules have ended in. */
  readonly ends: Set<string>
  /** Points at which an actor has stood. */
  readonly visited: Set<number>
  /** How often a backend may be terminated. */
  readonly kills: number
  /** Whether it may be in the middle of a function, too. */
  readonly killsInside: boolean
}

/** One run of a program, moved step by step. */
export class Schedule {
  readonly #words: Words
  readonly #program: Program
  readonly #stage: Stage
  readonly #effects: Effects
  readonly #options: ScheduleOptions
  readonly #trace: Trace
  readonly #record: Record
  readonly #roles: Role[]
  #clockSteps = 0
  #kills = 0

  constructor(
    program: Program,
    stage: Stage,
    protocol: Instrumented,
    record: Record,
    options: ScheduleOptions,
  ) {
    this.#program = program
    this.#stage = stage
    this.#effects = new Effects(program, protocol)
    this.#options = options
    this.#trace = new Trace(options.names)
    this.#record = record
    this.#words = new Words(program, protocol)
    this.#roles = program.actors.map(({ script }) => start(script()))
  }

  /** What has happened, a line for each turn of an actor. */
  get words(): readonly string[] {
    return this.#words.lines
  }

  /** How many backends were terminated so far. */
  get kills(): number {
    return this.#kills
  }

  /** Everything that may come next. */
  choices(): Choice[] {
    const choices: Choice[] = []
    for (const [actor, role] of this.#roles.entries()) {
      if (role.over || this.#stage.place(actor).at === 'blocked') continue
      choices.push({ actor, act: 'step' })
      if (this.#kills >= this.#options.kills || this.#program.actors[actor]?.killed === false) continue
      const { at } = this.#stage.place(actor)
      if (at === 'returned') choices.push({ actor, act: 'kill' }, { actor, act: 'lose' })
      if (at === 'gate' && this.#options.killsInside) choices.push({ actor, act: 'kill' })
    }
    if (this.#clockSteps < (this.#program.clock?.length ?? 0))
      choices.push({ actor: this.#roles.length, act: 'step' })
    return choices
  }

  /** A choice that nobody else can notice, now or later: it may be taken at once, and no other instead of it. */
  unnoticed(): Choice | undefined {
    return this.choices().find(choice => {
      if (choice.act !== 'step' || choice.actor === this.#roles.length) return false
      const { at } = this.#stage.place(choice.actor)
      if (at === 'returned' || !this.#stage.stops(choice.actor)) return false
      if (at === 'rest' && (this.#program.clock || isNoticed(this.#role(choice.actor).call))) return false
      const [, { reads, changes }] = this.#effect(choice)
      return at === 'rest' || reads.length + changes.length === 0
    })
  }

  /** The key of the state that a choice leads to; see {@link Trace}. */
  keyAfter(choice: Choice): string {
    return this.#trace.peek(choice.actor, ...this.#effect(choice))
  }

  /** The key of the state that it has come to. */
  get key(): string {
    return this.#trace.key
  }

  /** @throws Violation */
  async take(choice: Choice): Promise<void> {
    this.#trace.add(choice.actor, ...this.#effect(choice))
    if (choice.actor === this.#roles.length) return await this.#moveClock()
    const role = this.#role(choice.actor)
    if (choice.act === 'kill') return await this.#kill(choice.actor, role)
    const waited = this.#blocked()
    const { at } = this.#stage.place(choice.actor)
    if (at === 'rest') await this.#begin(choice.actor, role)
    else if (at === 'gate') await this.#stage.pass(choice.actor)
    else if (at === 'returned') await this.#end(choice.actor, role, choice.act === 'lose')
    else throw new Error(`explorer: actor ${choice.actor} cannot move, it is ${at}`)
    if (at !== 'returned') this.#tell(choice.actor)
    await this.#follow(choice.actor, waited)
  }

  /** Lets time pass over what has come of it, unless that was done before for the very same. */
  async finish(): Promise<void> {
    const { clients } = this.#record
    const { ends } = this.#options
    if (ends.has(this.#record.summary)) return
    ends.add(this.#record.summary)
    const waiting = clients.waiting.map(({ session, key, id }) => ({ session, key, request: id }))
    this.#words.says(undefined, 'time passes; everybody ticks, lets go, and closes')
    const { rows } = await this.#stage.control.query<{ finish: Finish }>(
      'select explorer.finish($1, $2) as finish',
      [clients.crashed, JSON.stringify(waiting)],
    )
    if (rows[0]) this.#record.checkFinish(rows[0].finish)
  }

  // The name of a move, and what it touches.
  #effect({ actor, act }: Choice): [string, Access] {
    if (actor === this.#roles.length) return [`clock ${this.#clockSteps}`, clockMoves]
    const role = this.#role(actor)
    const place = this.#stage.place(actor)
    if (place.at === 'rest') {
      const stops = this.#stage.stops(actor)
      return [`call ${role.calls}`, stops ? this.#effects.beginning(role) : this.#effects.atOnce(role)]
    }
    if (place.at === 'gate' && act === 'step')
      return [`point ${place.point}`, this.#effects.passing(place.point, role)]
    return [act, atEnd(role.touched)]
  }

  async #begin(actor: number, role: Role): Promise<void> {
    const { call } = role
    if (!call) throw new Error('explorer: nothing to begin')
    role.calls++
    const { key } = this.#program
    if (call.places.some(place => key !== undefined && place.key !== key))
      throw new Error(`explorer: ${call.words}: not ${key}`)
    role.sentAt = this.#record.clock
    role.touched = this.#stage.stops(actor) ? nothing : this.#effects.whole(role)
    this.#record.clients.sent(call, call.generation)
    await this.#stage.begin(actor, call)
  }

  async #end(actor: number, role: Role, lost: boolean): Promise<void> {
    const place = this.#stage.place(actor)
    const { call } = role
    if (place.at !== 'returned' || !call) throw new Error('explorer: nothing to end')
    const failed = place.reply.error !== undefined
    const state = await this.#stage.end(actor)
    this.#record.ended(actor)
    this.#words.ends(actor, place.reply)
    role.touched = nothing
    this.#became(state)
    const { clients } = this.#record
    if (call.function === 'raise_generation' && call.session && place.reply.answers[0]?.outcome) {
      clients.raised(call.session, Number(place.reply.answers[0].outcome), this.#record.state)
    }
    if (lost) {
      this.#kills++
      // An idle backend leaves nothing behind; that of a process that goes on is terminated all the same.
      if (this.#program.actors[actor]?.killed) await this.#stage.kill(actor)
      this.#words.says(actor, 'is terminated before the answer is out')
      this.#bury(actor, role)
      return
    }
    if (!failed) clients.answered(call, place.reply, role.sentAt)
    this.#record.checkAnswers(call, place.reply)
    this.#record.checkBeliefs()
    this.#advance(role, place.reply)
  }

  async #kill(actor: number, role: Role): Promise<void> {
    const waited = this.#blocked()
    this.#kills++
    await this.#stage.kill(actor)
    this.#record.ended(actor)
    role.touched = nothing
    this.#words.says(actor, 'is terminated before its commit')
    this.#bury(actor, role)
    await this.#refresh()
    await this.#follow(actor, waited)
  }

  // The process hears that its connection is gone, or it is gone itself.
  #bury(actor: number, role: Role): void {
    const killed = this.#program.actors[actor]?.killed
    if (killed) {
      Object.assign(role, start(killed()), { calls: role.calls })
      return
    }
    role.over = true
    if (role.call?.session) this.#record.clients.crash(role.call.session)
  }

  #advance(role: Role, reply: Reply): void {
    const next = role.script.next(reply)
    role.call = next.done ? undefined : next.value
    role.over = next.done === true
  }

  // Who waited for what was just given up has gone on as well, to a gate or to its return.
  async #follow(actor: number, waited: ReadonlySet<number>): Promise<void> {
    for (const other of waited) {
      if (this.#stage.place(other).at === 'blocked') continue
      const role = this.#role(other)
      this.#tell(other)
      // Where it has come to belongs to the history: of several that wake together, the server lets any go first.
      const { at, ...where } = this.#stage.place(other)
      const point = 'point' in where ? where.point : ''
      this.#trace.add(other, `woken ${at} ${point}`, whileOpen(role.touched))
    }
    const stuck = this.#blocked()
    for (const other of stuck) {
      const guard = this.#blockers(other).find(by => isGuard(this.#role(by).call))
      if (guard !== undefined)
        throw new Violation(`${this.#role(other).call?.words} waits for a transaction of the user's`)
    }
    if (inCycle(stuck, other => this.#blockers(other))) {
      const [victim = actor] = stuck
      await this.#stage.awaitDeadlock(victim)
      throw new Violation('deadlock (40P01): they wait for each other')
    }
  }

  // Says where an actor has come to, and checks what came back.
  #tell(actor: number): void {
    const role = this.#role(actor)
    const place = this.#stage.place(actor)
    this.#words.comes(actor, role.call, place)
    if (place.at === 'gate') {
      this.#options.visited.add(place.point)
      role.touched = union(role.touched, this.#effects.at(place.point))
    }
    if (place.at === 'returned' && role.call) this.#record.returned(actor, role.call, place.reply)
  }

  async #moveClock(): Promise<void> {
    const seconds = this.#program.clock?.[this.#clockSteps++] ?? 0
    await this.#stage.control.query(
      `select setval('explorer.clock', (select last_value + $1 from explorer.clock))`,
      [seconds],
    )
    this.#words.says(undefined, `${seconds} s pass`)
    await this.#refresh()
  }

  async #refresh(): Promise<void> {
    const { rows } = await this.#stage.control.query<{ state: State }>('select explorer.state() as state')
    if (rows[0]) this.#became(rows[0].state)
  }

  #became(state: State): void {
    const before = this.#record.state
    this.#record.became(state)
    this.#record.checkBeliefs()
    checkQuiet(this.#program, before, state)
  }

  #blocked(): Set<number> {
    return new Set([...this.#roles.keys()].filter(actor => this.#stage.place(actor).at === 'blocked'))
  }

  #blockers(actor: number): readonly number[] {
    const place = this.#stage.place(actor)
    return place.at === 'blocked' ? place.by : []
  }

  #role(actor: number): Role {
    const role = this.#roles[actor]
    if (!role) throw new Error(`explorer: no actor ${actor}`)
    return role
  }
}
