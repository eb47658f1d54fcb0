import { escapeLiteral } from 'pg'

/** One call of one function, in a transaction of its own that the explorer opens before and ends after it. */
export interface Call {
  readonly function: string
  readonly session: string | undefined
  readonly places: readonly Place[]
  /** Of its session, as far as its process knows. */
  readonly generation: number
  /** Of its transaction. */
  readonly isolation: 'read committed' | 'repeatable read'
  /** Of permits: requests to which they were passed on inside the process, as far as the call says so. */
  readonly passed?: readonly string[]
  readonly sql: string
  /** For people. */
  readonly words: string
}

/** What is asked for beyond an exclusive lock of one key. */
interface Terms {
  readonly mode?: 'shared' | 'permits'
  readonly permits?: number
  readonly capacity?: number
  readonly wide?: boolean
}

/** A key, and by what name or number it is asked for. */
export interface Place {
  readonly key: string
  readonly request?: string
  readonly token?: number
}

export interface Answer {
  readonly request: string | null
  readonly outcome: string
  readonly token: number | null
  readonly key: string | null
}

/** What a call came to once its transaction was committed. */
export interface Reply {
  /** SQLSTATE, where the server refused. */
  readonly error?: string
  readonly answers: readonly Answer[]
}

/** What one connection does: each call that it yields is run and committed, and the reply comes back. */
export type Script = Generator<Call, void, Reply>

/** `S1` is session 1, `r12` the second request of session 1. */
export const sessionId = (name: string): string =>
  `00000000-0000-0000-0000-${name.slice(1).padStart(12, '0')}`
const requestId = (name: string): string => `10000000-0000-0000-0000-${name.slice(1).padStart(12, '0')}`
export const janitor = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** The short name of a session or request. */
export function nameOf(id: string | null): string {
  if (id === null) return 'nobody'
  if (id === janitor) return 'the janitor'
  return `${id.startsWith('1') ? 'r' : 'S'}${Number(id.slice(-12))}`
}

export const at = (key: string, request: string): Place => ({ key, request: requestId(request) })
export const token = (key: string, number: number): Place => ({ key, token: number })

export function acquire(
  session: string,
  places: readonly Place[],
  options: {
    wait?: boolean
    generation?: number
    seen?: number
    terms?: Terms | readonly (Terms | undefined)[]
  } = {},
): Call {
  const { wait = true, generation = 1, seen, terms } = options
  const each = places.map((_, i) => (Array.isArray(terms) ? terms[i] : terms) as Terms | undefined)
  const asks = terms && `array[${each.map(term => escapeLiteral(JSON.stringify(term ?? {})))}]::jsonb[]`
  const waits = wait ? 'null' : `array[${places.map(() => 'false')}]`
  return call(
    'acquire',
    session,
    places,
    `${generation}, ${keys(places)}, ${requests(places)}, ${waits}${seen === undefined ? '' : `, seen => row(${seen}, null, null)`}${asks ? `, asks => ${asks}` : ''}`,
    {
      generation,
      words: `${wait ? 'acquire' : 'try'}${terms ? ` ${each.map(wordsOf).join(' and ')}` : ''}${seen === undefined ? '' : `, having seen base ${seen},`}`,
    },
  )
}

export const shared: Terms = { mode: 'shared' }
export const several: Terms = { wide: true }
export const permits = (n: number, capacity: number): Terms => ({ mode: 'permits', permits: n, capacity })

function wordsOf(terms: Terms | undefined): string {
  const { mode, permits: n, capacity, wide } = terms ?? {}
  return mode === 'permits'
    ? `${n} of ${capacity} permits of`
    : (mode ?? (wide ? 'one of several' : 'exclusive'))
}

export const downgrade = (session: string, { key, token: number }: Place): Call =>
  call('downgrade', session, [{ key, token: number ?? 0 }], `${escapeLiteral(key)}, ${number}`)

export const resize = (session: string, key: string, capacity: number): Call =>
  call('resize', session, [{ key }], `${escapeLiteral(key)}, ${capacity}`)

export const release = (session: string, ...places: readonly Place[]): Call =>
  call(
    'release',
    session,
    places,
    `${keys(places)}, array[${places.map(place => place.token ?? 0)}]::bigint[]`,
  )

export const releaseAndAcquire = (
  session: string,
  grant: Place,
  places: readonly Place[],
  { generation = 1 }: { generation?: number } = {},
): Call =>
  call(
    'release_and_acquire',
    session,
    [grant, ...places],
    `${generation}, ${escapeLiteral(grant.key)}, ${grant.token}, ${requests(places)}`,
    { generation, words: 'release and acquire' },
  )

/** Who was before it in the run has let go, inside the process, and it has its turn. */
export const turn = (session: string, place: Place): Call =>
  call('turn', session, [place], `${keys([place])}, array[${place.token}]::bigint[]`, {
    columns: `null::uuid request, 'told' outcome, null::bigint token, null::text key`,
  })

/** Permits go back that were passed on inside the process, to these requests one after the other. */
export const releasePermits = (session: string, place: Place, ...passed: readonly string[]): Call => {
  const named = passed.length > 0 ? `, passed => ${requests(passed.map(name => at(place.key, name)))}` : ''
  return call('release', session, [place], `${keys([place])}, array[${place.token}]::bigint[]${named}`, {
    words: 'release permits',
    passed: passed.map(requestId),
  })
}

/** The request has permits that were passed on to it, inside the process. */
export const turnPermits = (session: string, place: Place, request: string): Call =>
  call(
    'turn',
    session,
    [place],
    `${keys([place])}, array[${place.token}]::bigint[], requests => ${requests([at(place.key, request)])}`,
    {
      columns: `null::uuid request, 'told' outcome, null::bigint token, null::text key`,
      words: 'turn permits',
      passed: [requestId(request)],
    },
  )

export const cancel = (session: string, ...places: readonly Place[]): Call =>
  call('cancel', session, places, `${keys(places)}, ${requests(places)}`)

export const tick = (session: string, ...places: readonly Place[]): Call =>
  call('tick', session, places, `${keys(places)}, ${requests(places)}`)

export const raiseGeneration = (session: string, generation: number): Call =>
  call('raise_generation', session, [], String(generation), {
    columns: `null::uuid request, raise_generation::text outcome, null::bigint token, null::text key`,
  })

export const heartbeat = (session: string): Call =>
  call('heartbeat', session, [], '', {
    columns: `null::uuid request, renewed::text outcome, forced[1] token, null::text key`,
  })

/** By somebody without a session: takes a key from whoever holds it, or from the grant under that token. */
export const force = (place: Place): Call => ({
  function: 'force_release',
  session: undefined,
  places: [place],
  generation: 1,
  isolation: 'read committed',
  sql: `select request, outcome, token, key
          from force_release(${escapeLiteral(place.key)}, 'to explore', ${place.token ?? 'null'})`,
  words: `force ${place.key}${place.token ? ` under ${place.token}` : ''}`,
})

export const closeSession = (session: string): Call => call('close_session', session, [], '')

/** A transaction of the user's that pins the grant, and ends with the call's commit. */
export function guard(place: Place, isolation: Call['isolation'] = 'read committed'): Call {
  return {
    function: 'assert_held',
    session: undefined,
    places: [place],
    generation: 1,
    isolation,
    sql: `select null::uuid request, 'held' outcome, ${place.token} token, ${escapeLiteral(place.key)} key
            from assert_held(${escapeLiteral(place.key)}, ${place.token})`,
    words: `guard ${place.key} under ${place.token}${isolation === 'read committed' ? '' : ` at ${isolation}`}`,
  }
}

/** The same that raises nothing where the grant is not held: the transaction goes on. */
export const pin = (place: Place): Call => ({
  ...guard(place),
  function: 'pin',
  sql: `select null::uuid request, 'pinned' outcome, ${place.token} token, ${escapeLiteral(place.key)} key
          from pin(${escapeLiteral(place.key)}, ${place.token}, false)`,
  words: `pin ${place.key} under ${place.token}`,
})

function call(
  name: string,
  session: string,
  places: readonly Place[],
  rest: string,
  more: { generation?: number; words?: string; columns?: string; passed?: readonly string[] } = {},
): Call {
  const {
    generation = 1,
    words = name.replace('_', ' '),
    columns = 'request, outcome, token, key',
    passed,
  } = more
  const to = passed && passed.length > 0 ? `, passed on to ${passed.map(nameOf).join(' and ')}` : ''
  const what = places.map(
    place =>
      `${place.key}${place.request ? ` as ${nameOf(place.request)}` : ''}${place.token ? ` under ${place.token}` : ''}`,
  )
  return {
    function: name,
    session: sessionId(session),
    places,
    generation,
    isolation: 'read committed',
    ...(passed && { passed }),
    sql: `select ${columns} from ${name}('${sessionId(session)}'${rest && `, ${rest}`})`,
    words: `${session} ${words}${what.length > 0 ? ` ${what.join(' and ')}` : ''}${to}`,
  }
}

const keys = (places: readonly Place[]) => `array[${places.map(place => escapeLiteral(place.key))}]::text[]`
const requests = (places: readonly Place[]) =>
  `array[${places.map(place => escapeLiteral(place.request ?? ''))}]::uuid[]`
