/** Where an actor can be stopped inside of a statement: after it has found a row, before it locks it. */
export interface InnerPoint {
  readonly function: string
  readonly name: string
  /** The text before which the gate goes; it occurs once in the function. */
  readonly before: string
}

/**
 * PostgreSQL looks for rows by the statement's snapshot and then locks the newest version of what it found. A backend
 * that is preempted between the two, or wakes late from a wait, comes to the lock with an old view; a gate in the
 * condition, evaluated last, stops it just there.
 */
export const innerPoints: readonly InnerPoint[] = [
  { function: 'acquire', name: 'own session found', before: 's.id = acquire.session and' },
  { function: 'lock_rows', name: 'row found', before: 'l.key = any (keys)' },
  { function: 'take', name: 'row found', before: 'l.key = take.key for update' },
  { function: 'hand_over', name: 'session of the head found', before: 's.id = head.session and s.died is null for key' },
  { function: 'hand_over', name: 'ticket found', before: 'w.ticket = head.ticket;\n    continue when' },
  { function: 'bury', name: 'session found', before: 's.id = bury.session and s.died is null' },
  { function: 'release', name: 'row found', before: 'l.key = u.key and' },
  { function: 'release', name: 'another row found', before: 'l.key = any (rest) order by' },
  { function: 'cancel', name: 'ticket found', before: 'w.request = want.request and' },
  { function: 'heartbeat', name: 'session found', before: 's.id = heartbeat.session and s.died' },
  { function: 'raise_generation', name: 'session found', before: 's.id = raise_generation.session and s.died is null\n      and s.generation = raise_generation.generation;' },
  { function: 'close_session', name: 'session found', before: 's.id = close_session.session;\n  if not found' },
  { function: 'assert_held', name: 'row found', before: 'l.key = assert_held.key and' },
]

/** Where a token is drawn before its row is there: the gate stands between the two. */
export const draw = {
  function: 'acquire',
  name: 'number drawn',
  text: "base + nextval('fencing')",
} as const

/** The functions whose statements the explorer steps through. */
export const explored: readonly string[] = [
  'acquire',
  'enqueue',
  'release',
  'cancel',
  'tick',
  'look',
  'mend_lines',
  'clear_away',
  'close_session',
  'heartbeat',
  'raise_generation',
  'is_alive',
  'bury',
  'expires_in',
  'hand_over',
  'take',
  'lock_rows',
  'assert_held',
]

/** What they call, and the explorer takes as one with the statement that calls it. */
export const inert: readonly string[] = ['is_doubtful', 'server_time']

/**
 * The same, and what they touch does not count: the incarnation stays, which the explorer checks, and durability is
 * switched off.
 */
export const settled: readonly string[] = ['enter', 'current_base', 'new_incarnation', 'timeline', 'base_of', 'grace', 'durable']

/**
 * Points at which the transaction has the lock row of its key: it has inserted it, or `lock_rows` has returned it. Where
 * only one key is in play, what it does with that row from there on concerns nobody else before the commit. Not so the
 * second step of a taking, which meets guards.
 */
export const withOwnRow: readonly string[] = [
  'acquire: select q.last_value',
  'acquire: with numbered',
  'enqueue: ',
  'take: update locks l set released',
  'hand_over: ',
  'cancel: select * into held',
  'tick: select * into held',
  'close_session: select * into held',
]

/** Points without which the explorer would be blind to the known races: `function: first words of the statement`. */
export const required: readonly string[] = [
  'acquire: select (select q.last_value',
  'acquire: with inserted as',
  'acquire: number drawn',
  'acquire: select q.last_value',
  'enqueue: insert into waiters',
  'enqueue: update locks l set contended = true',
  'lock_rows: row found',
  'take: perform from locks',
  'take: row found',
  'hand_over: select * into head',
  'hand_over: delete from waiters',
  'hand_over: ticket found',
  'hand_over: update locks l set session = head.session',
  'bury: session found',
  'bury: update sessions s set died',
  'release: row found',
  'release: with deleted',
  'cancel: delete from waiters',
  'heartbeat: session found',
  'assert_held: row found',
]
