/** Where an actor can be stopped inside of a statement: after it has found a row, before it locks it. */
export interface InnerPoint {
  readonly function: string
  readonly name: string
  /** Occurs once in the function, whatever its white space; the gate goes in after its last `where`. */
  readonly in: string
}

/**
 * PostgreSQL looks for rows by the statement's snapshot and then locks the newest version of what it found. A backend
 * that is preempted between the two, or wakes late from a wait, comes to the lock with an old view; a gate in the
 * condition, evaluated last, stops it just there.
 */
export const innerPoints: readonly InnerPoint[] = [
  { function: 'acquire', name: 'own session found', in: 'from here h, sessions s where s.id' },
  { function: 'acquire', name: 'own session found again', in: 'perform from sessions s where s.id' },
  { function: 'lock_rows', name: 'row found', in: 'where l.key = any (keys)' },
  { function: 'take', name: 'row found', in: 'where l.key = take.key for update' },
  {
    function: 'hand_over',
    name: 'session of the head found',
    in: 'where s.id = head.session and s.died is null for key',
  },
  {
    function: 'hand_over',
    name: 'ticket found',
    in: 'where w.key = head.key and w.ticket = head.ticket; continue when',
  },
  { function: 'bury', name: 'session found', in: 'perform from sessions s where s.id = bury.session' },
  { function: 'release', name: 'row found', in: 'where l.key = release.keys[1]' },
  { function: 'release', name: 'row of a batch found', in: 'where l.key = u.key' },
  { function: 'release', name: 'row of the rest found', in: 'where l.key = any (rest)' },
  {
    function: 'release_and_acquire',
    name: 'own session found',
    in: 'perform from sessions s where s.id = release_and_acquire.session',
  },
  {
    function: 'release_and_acquire',
    name: 'row found',
    in: 'where l.key = held.key and asks is null and (not held.contended',
  },
  { function: 'look', name: 'own row found', in: 'where l.key = any (look.keys) and (l.request' },
  { function: 'cancel', name: 'ticket found', in: 'where w.request = want.request and w.key' },
  { function: 'heartbeat', name: 'session found', in: 'where s.id = heartbeat.session' },
  {
    function: 'raise_generation',
    name: 'session found',
    in: 'set generation = raise_generation.generation + 1 where s.id',
  },
  { function: 'close_session', name: 'session found', in: 'generation = s.generation + 1 where s.id' },
  {
    function: 'pin',
    name: 'row found',
    in: 'select l.session into holder from locks l where l.key = pin.key',
  },
  {
    function: 'force_release',
    name: 'session of the holder found',
    in: 'perform from sessions s where s.id = named.session',
  },
  {
    function: 'pin',
    name: 'holder found',
    in: 'select h.session into holder from holders h where h.key = pin.key',
  },
  {
    function: 'end_holders',
    name: 'holder found',
    in: 'from holders h where h.key = u.key and h.token = u.token for update',
  },
  {
    function: 'serve',
    name: 'sessions of the first found',
    in: 'from sessions s where s.died is null and s.id = any',
  },
  {
    function: 'serve',
    name: 'head without a line found',
    in: "here.mode = 'permits'; perform from locks l where l.key = serve.key for",
  },
  {
    function: 'serve',
    name: 'head of another kind found',
    in: "exit when holding > 0; -- Nobody pins a head, but who came for what it was before may have it, in a transaction of the user's. perform from locks l where",
  },
  {
    function: 'take_all',
    name: 'rows found',
    in: 'select from locks l where l.key = any (take_all.keys) order by',
  },
  { function: 'downgrade', name: 'row found', in: 'perform from locks l where l.key = held.key for update' },
  {
    function: 'announce_schedule',
    name: 'schedule found',
    in: 'set said_at = judged where s.name = announce_schedule.schedule',
  },
  {
    function: 'announce_schedule',
    name: 'abandoned one found',
    in: "from schedules s where s.said_at < judged - interval '90 days'",
  },
  {
    function: 'leave_schedule',
    name: 'schedule found',
    in: 'from schedules s where s.name = leave_schedule.schedule for',
  },
  {
    function: 'take_tick',
    name: 'schedule found',
    in: 'from schedules s where s.name = take_tick.schedule for',
  },
  {
    function: 'end_tick',
    name: 'schedule found',
    in: 'from schedules s where s.name = end_tick.schedule for',
  },
  { function: 'record_once', name: 'old ones found', in: 'from once x where x.kept_until <= judged' },
]

/** Where a token is drawn before its row is there: the gate stands between the two. */
export const draws: readonly InnerPoint[] = [
  {
    function: 'acquire',
    name: 'number drawn',
    in: "values (keys[1], acquire.session, requests[1], base + nextval('fencing')",
  },
  {
    function: 'acquire',
    name: 'number of a batch drawn',
    in: "select u.key, acquire.session, u.request, base + nextval('fencing')",
  },
]

/** The functions whose statements the explorer steps through. */
export const explored: readonly string[] = [
  'acquire',
  'acquire_on_terms',
  'asked_of',
  'admit',
  'enqueue',
  'settle_wide',
  'take_all',
  'release',
  'release_and_acquire',
  'turn',
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
  'rest',
  'close_line',
  'open_head',
  'serve',
  'let_follow',
  'end_holders',
  'reap_holders',
  'release_holders',
  'downgrade',
  'resize',
  'begin_run',
  'members',
  'take',
  'lock_rows',
  'assert_held',
  'pin',
  'enter',
  'current_base',
  'new_incarnation',
  'grace',
  'force_release',
  'announce_schedule',
  'rule_schedule',
  'leave_schedule',
  'take_tick',
  'record_ticks',
  'end_tick',
  'record_once',
]

/** What they call, and the explorer takes as one with the statement that calls it. */
export const inert: readonly string[] = [
  'is_doubtful',
  'judged_at',
  'server_time',
  'note',
  'check_token',
  'tell',
  'fits_kind',
  'first_of',
  'may_move',
  'grants_of',
  'schedule_time',
  'moment',
  'milliseconds',
  'state_of_schedule',
  'look_schedule',
  'look_once',
]

/** The same, and what they touch does not count: the server stays the same one, and durability is switched off. */
export const settled: readonly string[] = ['timeline', 'base_of', 'durable']

/**
 * Points at which the transaction has the lock row of its key: it has inserted it, or `lock_rows` has returned it. Where
 * only one key is in play, what it does with that row from there on concerns nobody else before the commit. Not so the
 * second step of a taking, which meets guards.
 */
export const withOwnRow: readonly string[] = [
  'acquire: if pg_sequence_last_value',
  'acquire: with numbered',
  'enqueue: ',
  'take: update locks l set released',
  'hand_over: ',
  'begin_run: ',
  'members: ',
  'cancel: select * into held',
  'turn: select * into held',
  'turn: delete from waiters',
  'tick: select * into held',
  'close_session: select * into held',
]

/** What that rests on. */
export const premises: readonly { readonly function: string; readonly in: string }[] = [
  { function: 'lock_rows', in: 'order by l.key for no key update' },
  { function: 'enqueue', in: 'locked := lock_rows(' },
  { function: 'cancel', in: 'locked := lock_rows(cancel.keys)' },
  { function: 'turn', in: 'locked := lock_rows(turn.keys)' },
  { function: 'tick', in: 'places := lock_rows(places)' },
  { function: 'close_session', in: 'in array lock_rows(' },
  { function: 'take', in: 'for update skip locked; if found then return hand_over' },
]

/** Points without which the explorer would be blind to the known races: `function: first words of the statement`. */
export const required: readonly string[] = [
  'acquire: drawn := pg_sequence_last_value',
  'acquire: insert into locks',
  'acquire: with inserted as',
  'acquire: number drawn',
  'acquire: if pg_sequence_last_value',
  'enqueue: insert into waiters',
  'enqueue: update locks l set contended = true',
  'lock_rows: row found',
  'take: perform from locks',
  'take: row found',
  'hand_over: select * into head',
  'hand_over: delete from waiters',
  'hand_over: ticket found',
  'hand_over: update locks l set session = head.session',
  'begin_run: update waiters',
  'begin_run: update locks',
  'bury: session found',
  'bury: update sessions s set died',
  'release: row found',
  'release: delete from locks',
  'release: with mine',
  'cancel: delete from waiters',
  'heartbeat: session found',
  'pin: row found',
  'force_release: session of the holder found',
  'serve: sessions of the first found',
  'serve: with taken',
  'end_holders: holder found',
  'pin: holder found',
  'take_all: rows found',
  'downgrade: row found',
  'announce_schedule: insert into schedules',
  'announce_schedule: abandoned one found',
  'take_tick: schedule found',
  'take_tick: update ticks t set state',
  'end_tick: update ticks',
  'record_ticks: insert into ticks',
  'record_once: insert into once',
  'record_once: old ones found',
]
