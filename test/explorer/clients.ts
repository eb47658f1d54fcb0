import { type Answer, type Call, nameOf, type Reply } from './calls.ts'
import { type Grant, grantsOf, type State } from './state.ts'

/**
 * What a client knows of a request; of one for several keys, for each of them.
 * asked → waiting | held | refused; any → leaving (it has sent that it gives up) → gone.
 */
export interface Request {
  readonly id: string
  readonly session: string
  readonly key: string
  readonly generation: number
  is: 'asked' | 'waiting' | 'held' | 'refused' | 'leaving' | 'gone'
  token?: number
}

const nameFor = (id: string, key: string) => `${id} ${key}`

interface Client {
  /** Seconds. */
  readonly ttl: number
  /** By the explorer's clock: the last answered renewal was sent at this time less the ttl. */
  trustUntil: number
  /** Crashed, closed, or told that it is dead: it believes nothing any more. */
  over: boolean
  crashed: boolean
}

const asking = ['acquire', 'release_and_acquire']
const releasing = ['release', 'release_and_acquire']

/** What the processes believe, by what they have sent and what was answered. */
export class Clients {
  readonly requests = new Map<string, Request>()
  /** Keys that somebody has sent to take by hand. */
  readonly forced = new Set<string>()
  /** Keys of which it was said how many permits there are. */
  readonly resized = new Set<string>()
  readonly #clients = new Map<string, Client>()

  open(session: string, ttl: number): void {
    this.#clients.set(session, { ttl, trustUntil: ttl, over: false, crashed: false })
  }

  get crashed(): string[] {
    return [...this.#clients].filter(([, client]) => client.crashed).map(([id]) => id)
  }

  /** All that it knows, as one text. */
  get summary(): string {
    const requests = [...this.requests.values()].map(({ id, is, token, generation }) => [
      id,
      is,
      token,
      generation,
    ])
    return JSON.stringify([requests, [...this.#clients]])
  }

  isOver(session: string): boolean {
    return this.#client(session).over
  }

  sent(call: Call, generation = 1): void {
    if (call.function === 'force_release') for (const { key } of call.places) this.forced.add(key)
    if (call.function === 'resize') for (const { key } of call.places) this.resized.add(key)
    for (const place of call.places) {
      if (asking.includes(call.function) && place.request && call.session) {
        const { is } = this.get(place.request, place.key) ?? {}
        if (is === 'leaving' || is === 'gone') continue
        this.requests.set(nameFor(place.request, place.key), {
          id: place.request,
          session: call.session,
          key: place.key,
          generation,
          is: 'asked',
        })
      }
      const givesUp =
        call.function === 'cancel' || (releasing.includes(call.function) && place.token !== undefined)
      if (givesUp) {
        for (const each of this.#of(call.session)) {
          if (each.id === place.request && each.key === place.key) each.is = 'leaving'
          if (each.key !== place.key || each.token === undefined || place.token === undefined) continue
          // Each permit goes back by itself.
          if (call.passed) {
            if (each.token === place.token) each.is = 'leaving'
            continue
          }
          // Whoever of a run was before it has let go already, inside the process.
          const isBefore = each.is === 'held' || each.is === 'waiting'
          if (each.token === place.token || (isBefore && each.token < place.token)) each.is = 'leaving'
        }
      }
    }
    if (call.function === 'close_session') {
      for (const request of this.#of(call.session)) request.is = 'leaving'
    }
    if (call.function === 'turn' && !call.passed) this.#turns(call)
    if (call.passed) this.#passed(call, call.passed)
  }

  /** Inside the process they were passed on before this was sent: whoever had them has let go, and who has them is one at most. */
  #passed({ function: name, session, places: [place] }: Call, passed: readonly string[]): void {
    for (const each of this.#of(session)) {
      if (each.key !== place?.key) continue
      if (!passed.includes(each.id)) {
        if (name === 'turn' && each.token === place.token && each.is === 'held') each.is = 'leaving'
      } else if (name === 'release') {
        if (each.is === 'waiting' || each.is === 'held') each.is = 'leaving'
      } else if (each.is === 'waiting' && place.token !== undefined) {
        Object.assign(each, { is: 'held', token: place.token })
      }
    }
  }

  /** What goes back was passed on to them: they are in line no more, and are granted nothing. */
  hadPermits(id: string, key: string): void {
    const request = this.get(id, key)
    if (request?.is === 'leaving') request.is = 'gone'
  }

  /** Inside the process whoever was before has let go, and who is next believes in its turn, whatever becomes of the call. */
  #turns({ session, places: [place] }: Call): void {
    for (const each of this.#of(session)) {
      if (each.key !== place?.key || each.token === undefined || place.token === undefined) continue
      if (each.token === place.token && each.is === 'waiting') each.is = 'held'
      if (each.token < place.token && each.is === 'held') each.is = 'leaving'
    }
  }

  /** @param sentAt by the clock, when the call was sent */
  answered(call: Call, reply: Reply, sentAt: number): void {
    for (const answer of reply.answers) this.#hear(call, answer)
    if (call.session === undefined || reply.error !== undefined) return
    const client = this.#client(call.session)
    if (call.function === 'heartbeat') {
      const [beat] = reply.answers
      // What was taken by hand is given up at this moment, and the renewal is none for it.
      const taken = this.#of(call.session).find(({ token }) => token === beat?.token)
      if (taken && taken.is !== 'gone') taken.is = 'leaving'
      if (beat?.outcome === 'true') client.trustUntil = Math.max(client.trustUntil, sentAt + client.ttl)
      else client.over = true
    }
    if (call.function === 'close_session') client.over = true
    if (!['cancel', 'close_session', 'turn', ...releasing].includes(call.function)) return
    for (const request of this.#of(call.session)) {
      const named = call.places.some(
        place =>
          (place.request === request.id &&
            place.key === request.key &&
            call.function !== 'release_and_acquire') ||
          (place.token !== undefined &&
            place.key === request.key &&
            request.token !== undefined &&
            ((request.token < place.token && !call.passed) ||
              (request.token === place.token && call.function !== 'turn'))),
      )
      // It has to be sent once more, and with it whoever of a run was before.
      const isLeft = ({ outcome, token, key }: Answer) =>
        outcome === 'again' && key === request.key && token !== null && (request.token ?? 0) <= token
      if (reply.answers.some(isLeft)) continue
      if (request.is === 'leaving' && (named || call.function === 'close_session')) request.is = 'gone'
    }
  }

  crash(session: string): void {
    Object.assign(this.#client(session), { over: true, crashed: true })
  }

  /** Under the new generation nothing that was sent before can come to pass, except what is there already. */
  raised(session: string, generation: number, state: State): void {
    for (const request of this.#of(session)) {
      const there = [...grantsOf(state), ...state.waiters].some(
        row => row.request === request.id && row.key === request.key,
      )
      if (request.is === 'asked' && request.generation < generation && !there) request.is = 'gone'
    }
  }

  /** Requests that a process believes to hold at this time. */
  believed(clock: number): Request[] {
    return [...this.requests.values()].filter(({ is, session }) => {
      const client = this.#client(session)
      return is === 'held' && !client.over && clock < client.trustUntil
    })
  }

  /** Whether a grant to this request is one that its process has given up, or never got. */
  isGone(id: string | null, key: string): boolean {
    const is = id === null ? undefined : this.get(id, key)?.is
    return is === 'gone' || is === 'refused'
  }

  /** Whether a holder has sent that it lets go. */
  letsGo(row: Grant): boolean {
    const others = this.#of(row.session).filter(({ key }) => key === row.key)
    // Whoever of the run has its turn, though that was not told yet.
    const isOn = others.some(
      ({ is, token = 0 }) => is === 'held' && token > row.token && token <= row.tokenTo,
    )
    if (row.request !== null) return this.isGivenUp(row.request, row.key) && !isOn
    return others.every(
      ({ id, key, token }) => this.isGivenUp(id, key) || token === undefined || token < row.token,
    )
  }

  isGivenUp(id: string | null, key: string): boolean {
    const is = id === null ? undefined : this.get(id, key)?.is
    return is === 'leaving' || is === 'gone'
  }

  /** What the living wait for. */
  get waiting(): Request[] {
    return [...this.requests.values()].filter(({ is, session }) => is === 'waiting' && !this.isOver(session))
  }

  get(id: string, key: string): Request | undefined {
    return this.requests.get(nameFor(id, key))
  }

  // An answer without a key is for all of them, and so is one that nothing was done.
  #hear(call: Call, answer: Answer): void {
    for (const request of this.requests.values()) {
      const isAll = answer.key === null || ['mismatch', 'again', 'dead'].includes(answer.outcome)
      if (request.id === answer.request && (isAll || request.key === answer.key))
        this.#take(call, request, answer)
    }
  }

  #take(call: Call, request: Request, { outcome, token }: Answer): void {
    // A request that was given up stays so, whatever an answer on its way still says.
    if (request.is === 'leaving' || request.is === 'gone') return
    if (outcome === 'granted' && token !== null) Object.assign(request, { is: 'held', token })
    if (outcome === 'queued') request.is = 'waiting'
    if (outcome === 'follows' && token !== null) Object.assign(request, { is: 'waiting', token })
    if (asking.includes(call.function) && ['busy', 'again', 'dead', 'mismatch'].includes(outcome))
      request.is = 'refused'
  }

  #of(session: string | undefined): Request[] {
    return [...this.requests.values()].filter(request => request.session === session)
  }

  #client(session: string): Client {
    const client = this.#clients.get(session)
    if (!client) throw new Error(`explorer: no session ${nameOf(session)}`)
    return client
  }
}
