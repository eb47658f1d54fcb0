/**
 * Takes in what was answered, whichever call it was. Each request is decided once, and what comes later changes nothing.
 */
import type { Answer } from '../database/answers.ts'
import { LimitMismatchError, LostError } from '../errors.ts'
import type { Session } from '../session/session.ts'
import type { Counter } from './counter.ts'
import type { Desk } from './desk.ts'
import type { Lock } from './lock.ts'
import type { Request } from './request.ts'
import { Run } from './run.ts'

/** What a call asks for, and under which generation of its session. */
export interface Batch {
  readonly asked: readonly Request[]
  readonly generation: number
}

interface Asked extends Batch {
  readonly byId: ReadonlyMap<string, Request>
}

/** Under a number of its own; who follows where permits are passed on has none. */
const isOfRun = (answer: Answer | undefined) => answer?.outcome === 'follows' && answer.token !== null

export class Intake {
  readonly #desk: Desk
  readonly #counter: Counter
  /** Those to be asked anew after this answer: one for several keys is told for each of them. */
  readonly #anew = new Set<Request>()

  constructor(desk: Desk, counter: Counter) {
    this.#desk = desk
    this.#counter = counter
  }

  /** @param batch what was asked for, where the call did ask. Who follows in a run comes right after its grant. */
  take(answers: readonly Answer[], session: Session, batch?: Batch): void {
    const asked = batch && { ...batch, byId: new Map(batch.asked.map(request => [request.id, request])) }
    this.#anew.clear()
    for (let i = 0; i < answers.length; i += 1) {
      const answer = answers[i] as Answer
      this.#takeOne(answer, session, asked)
      if (!isOfRun(answers[i + 1])) continue
      const followers: Answer[] = []
      for (; isOfRun(answers[i + 1]); i += 1) followers.push(answers[i + 1] as Answer)
      this.#begin(answer, followers, session, asked)
    }
  }

  /**
   * A run: whoever follows in it is in line here, until its turn comes. A grant never comes without those who follow, so
   * that what tells of one that is over by now offers them nothing new.
   */
  #begin(
    { key, token }: Answer,
    followers: readonly Answer[],
    session: Session,
    asked: Asked | undefined,
  ): void {
    if (key === null || token === null || session.trust() === 'over') return
    if (session.isForced(token)) return
    const holding = session.held.get(token) as Lock | undefined
    const run = holding?.run ?? new Run(token)
    if (holding) holding.run = run
    let grows = false
    for (const follower of followers) {
      const request = this.#find(follower, asked)
      // Given up while it was asked for: nobody has taken it back yet.
      if (request?.givenUp && asked) this.#counter.returner.cancel(request)
      if (!request || !run.add(request, follower.token as string)) continue
      grows = true
      if (request.stage !== 'queued') this.#desk.options.queued(request, session, null)
    }
    // The first has given up: its turn is over before it began.
    if (!holding && grows) this.#desk.passOn(run, session)
  }

  #find({ request }: Answer, asked: Asked | undefined): Request | undefined {
    return request === null ? undefined : (asked?.byId.get(request) ?? this.#desk.options.line.get(request))
  }

  /** One that was given up while `asked` was in flight is cancelled now, also when its caller has gone already. */
  #takeOne(answer: Answer, session: Session, asked: Asked | undefined): void {
    if (answer.outcome === 'handed') {
      if (answer.key !== null) this.#desk.contend(answer.key)
      return this.#counter.returner.hint(answer.channel, answer.key)
    }
    const request = this.#find(answer, asked)
    if (answer.outcome === 'granted' && (!request || (request.stage === 'done' && !request.givenUp)))
      return this.#desk.spare(answer, session)
    if (!request) return answer.outcome === 'again' ? this.#desk.hadGone(answer, session) : undefined
    request.failingSince = undefined
    request.failure = undefined
    if (request.givenUp) return this.#counter.returner.cancel(request)
    if (request.stage === 'done') return
    switch (answer.outcome) {
      case 'follows':
        if (session.trust() === 'over') return this.askElsewhere(request, session)
        if (request.stage !== 'queued') this.#desk.options.queued(request, session, answer.expiresIn)
        return this.#desk.follow(request, session)
      case 'granted':
        return this.#grant(request, answer, session)
      case 'queued':
        this.#desk.contend(request.key)
        request.parts?.clear()
        // Its session's end took the ticket along, and told nobody who was not known to be in line.
        if (session.trust() === 'over') return this.askElsewhere(request, session)
        if (request.stage !== 'queued') this.#desk.options.queued(request, session, answer.expiresIn)
        // Who holds nothing waits for nothing that could wait for it.
        if (request.context !== undefined) void this.#desk.checkDeadlock(request, session)
        return
      case 'busy':
        this.#desk.contend(request.key)
        return request.resolveBusy()
      case 'mismatch':
        return request.fail(
          new LimitMismatchError(
            answer.key ?? request.key,
            request.details.capacity ?? null,
            answer.level === null ? null : Number(answer.level),
          ),
        )
      case 'again':
        this.#desk.options.line.dequeue(request)
        request.stage = 'asking'
        return this.#askAnew(request)
      case 'dead':
        // It was sent under a generation that was raised meanwhile, for a call that was lost on another connection.
        if (asked && (session.isUnsettled || session.generation !== asked.generation))
          return this.#askAnew(request)
        session.end('expired')
        return this.askElsewhere(request, session)
    }
  }

  /** Under the next session. Who was in line under the one that is over has lost the place, and is told. */
  askElsewhere(request: Request, session: Session): void {
    if (request.placedUnder === session) request.losePlace(session)
    else this.#askAnew(request)
  }

  #askAnew(request: Request): void {
    if (this.#anew.has(request)) return
    if (request.keys) this.#anew.add(request)
    this.#counter.asker.ask(request)
  }

  #grant(request: Request, { token: given, key, level }: Answer, session: Session): void {
    const token = given as string
    const { keys, parts } = request
    if (keys && parts) {
      parts.set(key as string, token)
      if (parts.size < keys.length) return
    }
    // The session's end gives the row back.
    if (session.trust() === 'over') return this.askElsewhere(request, session)
    if (session.isForced(token)) {
      const grants = parts ? [...parts] : [[request.key, token] as const]
      for (const [key, one] of grants) void this.#counter.returner.release(session, key, one)
      return request.fail(new LostError(request.key, 'forced'))
    }
    const tokens = keys && parts && new Map(keys.map(one => [one, parts.get(one) as string]))
    this.#desk.grant(
      request,
      { token: tokens?.values().next().value ?? token, level: level ?? undefined, tokens },
      session,
    )
  }
}
