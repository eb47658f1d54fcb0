import {
  acquire,
  at,
  type Call,
  cancel,
  heartbeat,
  type Place,
  raiseGeneration,
  release,
  releasePermits,
  type Script,
  tick,
  token,
} from '../calls.ts'

/** These calls, whatever they answer. */
export function* inTurn(...calls: readonly Call[]): Script {
  for (const call of calls) yield call
}

/** Takes a key, once more if it is told `again`, and lets go of it if it was granted at once. */
export function* takeAndRelease(
  session: string,
  key: string,
  request: string,
  options: Parameters<typeof acquire>[2] = {},
): Script {
  const place = at(key, request)
  for (let attempt = 0; attempt < 2; attempt++) {
    const { answers } = yield acquire(session, [place], options)
    const granted = own(answers, place.request)
    if (granted?.outcome === 'granted' && granted.token !== null)
      return yield* letGo(session, token(key, granted.token))
    if (granted?.outcome !== 'again') return
  }
}

/** Lets go of one key or several, and once more of those that it is told to try `again`. */
export function* letGo(session: string, ...places: readonly Place[]): Script {
  let rest = places
  for (let attempt = 0; attempt < 2 && rest.length > 0; attempt++) {
    const { answers } = yield release(session, ...rest)
    const again = answers.filter(({ outcome }) => outcome === 'again')
    rest = rest.filter(place => again.some(answer => answer.token === place.token))
  }
}

/** Permits go back that were passed on to these, and once more if it is told to try `again`. */
export function* giveBackPermits(session: string, place: Place, ...passed: readonly string[]): Script {
  for (let attempt = 0; attempt < 2; attempt++) {
    const { answers } = yield releasePermits(session, place, ...passed)
    if (!answers.some(({ outcome }) => outcome === 'again')) return
  }
}

/** Looks for a request that has had the permits under `had`, and gives back what others it was granted. */
export function* givesBackGranted(session: string, key: string, request: string, had: number): Script {
  const { answers } = yield tick(session, at(key, request))
  const granted = answers.find(({ outcome, token: given }) => outcome === 'granted' && given !== had)
  if (granted?.token != null) yield* giveBackPermits(session, token(key, granted.token))
}

/** Renews, and gives back what it is told was taken by hand. */
export function* beatAndGiveBack(session: string, key: string): Script {
  const { answers } = yield heartbeat(session)
  const forced = answers[0]?.token
  if (forced != null) yield* letGo(session, token(key, forced))
}

/** What a client does about a request once the connection is lost on which it was sent: nothing of it may remain. */
export function* settle(session: string, key: string, request: string): Script {
  yield raiseGeneration(session, 1)
  yield cancel(session, at(key, request))
}

const own = <T extends { request: string | null }>(answers: readonly T[], request: string | undefined) =>
  answers.find(answer => answer.request === request)
