import { acquire, at, type Call, cancel, raiseGeneration, release, type Script, tick, token } from '../calls.ts'

/** These calls, whatever they answer. */
export function* inTurn(...calls: readonly Call[]): Script {
  for (const call of calls) yield call
}

/** Takes a key, once more if it is told `again`; looks once if it has to wait; lets go of what it was granted. */
export function* takeAndRelease(session: string, key: string, request: string): Script {
  const place = at(key, request)
  for (let attempt = 0; attempt < 2; attempt++) {
    let { answers } = yield acquire(session, [place])
    if (own(answers, place.request)?.outcome === 'queued') answers = (yield tick(session, place)).answers
    const granted = own(answers, place.request)
    if (granted?.outcome === 'granted' && granted.token !== null) return yield* letGo(session, key, granted.token)
    if (granted?.outcome !== 'again') return
  }
}

/** Lets go, once more if it is told `again`. */
export function* letGo(session: string, key: string, number: number): Script {
  for (let attempt = 0; attempt < 2; attempt++) {
    const { answers } = yield release(session, token(key, number))
    if (answers[0]?.outcome !== 'again') return
  }
}

/** What a client does about a request once the connection is lost on which it was sent: nothing of it may remain. */
export function* settle(session: string, key: string, request: string): Script {
  yield raiseGeneration(session, 1)
  yield cancel(session, at(key, request))
}

const own = <T extends { request: string | null }>(answers: readonly T[], request: string | undefined) =>
  answers.find(answer => answer.request === request)
