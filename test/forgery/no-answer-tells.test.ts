// Whose grant it is, is proved by ids that nobody else is told. All that a role is let at, asked for by another session.
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { createRole, dropRole, type Role } from './support/roles.ts'
import { inSchema } from './support/sql.ts'

type Ask = readonly [text: string, ...values: unknown[]]

describe.each(['application', 'operator'] as const)('the %s role', kind => {
  let db: TestDatabase
  let role: Role
  let snoop: pg.Client
  const mine = randomUUID()
  const closing = randomUUID()
  const clients: Fencepost[] = []
  /** Ids of others. */
  let secrets: string[]
  /** All that was answered: rows, errors, notices, notifications. */
  let heard = ''

  beforeAll(async () => {
    db = await createDatabase()
    role = await createRole(db, kind)
    snoop = new pg.Client(role.url)
    snoop.on('notice', notice => hear(notice))
    snoop.on('notification', message => hear(message))
    await snoop.connect()
    await populate()
  })
  afterAll(async () => {
    await snoop.end()
    await Promise.all(clients.map(client => client.close({ timeout: 0 })))
    await dropRole(db, role)
    await db.drop()
  })

  function hear(said: unknown): void {
    heard += `${JSON.stringify(said, (_, value) => (typeof value === 'bigint' ? String(value) : value))}\n`
  }

  /** Asks as the role, and keeps the answer; the SQLSTATE where it was refused. */
  async function ask([text, ...values]: Ask): Promise<string | undefined> {
    try {
      hear((await snoop.query(inSchema(db, text), values)).rows)
      return undefined
    } catch (error) {
      const { message, detail, hint, where, code } = error as pg.DatabaseError
      hear({ ...(error as object), message, detail, hint, where })
      return code
    }
  }

  /** As the same role, over both roads: two hold, both wait, one was taken by hand. Both sides are in each other's line. */
  async function populate(): Promise<void> {
    const pool = db.pool({ connectionString: role.url })
    const query = (text: string, values?: unknown[]) => pool.query(text, values)
    const [one, two] = [
      new Fencepost({ pool, schema: db.schema }),
      new Fencepost({ pool: { query }, schema: db.schema }),
    ]
    clients.push(one, two)
    await one.acquire('one', { label: 'label', metadata: { a: 1 } })
    await two.acquire('two')
    await two.election('led', { value: 'what it says' }).campaign()
    await one.election('led fast', { takeover: 'fast' }).campaign()
    for (const session of [mine, closing]) {
      await snoop.query(inSchema(db, `select * from $schema.open_session($1, '60s')`), [session])
    }
    for (const [session, keys] of [
      [mine, ['mine', 'mine too', 'dispatched', 'notified']],
      [closing, ['closing']],
    ] as const) {
      await snoop.query(inSchema(db, 'select * from $schema.acquire($1, 1, $2, $3)'), [
        session,
        keys,
        keys.map(() => randomUUID()),
      ])
    }
    const waits: Promise<unknown>[] = [
      one.election('led').campaign(),
      one.election('led fast', { takeover: 'fast' }).campaign(),
      one.acquire('two'),
      one.acquire('mine'),
      two.acquire('mine too'),
      two.acquire('dispatched'),
      two.acquire('notified'),
    ]
    waits.push(one.acquire('closing'), two.acquire('one'))
    // Together, and those whom that keeps waiting: inside a section, so that somebody may be waiting for us.
    await one.acquire('read', { mode: 'shared' })
    await one.semaphore('permits', { permits: 2 }).acquire()
    waits.push(two.acquire('read'), two.acquire(['read', 'two']))
    waits.push(
      two.withLock('section', () => two.semaphore('permits', { permits: 2 }).acquire({ permits: 2 })),
    )
    for (const wait of waits) wait.catch(() => {})
    const waiting = `select from $schema.waiters`
    await until(async () => (await db.query(inSchema(db, waiting))).length === waits.length + 1)
    await one.acquire('forced')
    await db.query(inSchema(db, `select * from $schema.force_release('forced', 'why')`))
    secrets = (
      await db.query<{ id: string }>(
        inSchema(
          db,
          `select id from (
             select id from $schema.sessions union select session from $schema.locks
             union select request from $schema.locks where session <> all ($1)
             union select request from $schema.waiters union select session from $schema.events
             union select session from $schema.holders union select request from $schema.holders
             union select context from $schema.waiters) x
            where id <> all ($1)`,
        ),
        [[mine, closing]],
      )
    ).map(({ id }) => id)
    await one.schedule('a schedule', '0 0 1 1 *', () => {})
    await one.once('done', () => 'result', { within: '1d' })
    await snoop.query(inSchema(db, 'select * from $schema.acquire($1, 1, $2, $3)'), [
      mine,
      ['a schedule:schedule', 'mine:once'],
      [randomUUID(), randomUUID()],
    ])
    await db.query('analyze')
  }

  async function granted(): Promise<string[]> {
    const rows = await db.query<{ name: string }>(
      `select distinct proname::text as name from pg_proc
        where pronamespace = $2::regnamespace and has_function_privilege($1, oid, 'execute')`,
      [role.name, pg.escapeIdentifier(db.schema)],
    )
    return rows.map(({ name }) => name)
  }

  const token = async (key: string) =>
    (
      await db.query<{ token: string }>(inSchema(db, 'select token from $schema.locks where key = $1'), [key])
    )[0]?.token

  /** How each function is asked. One that is granted and not here fails the test. */
  async function questions(): Promise<Record<string, Ask[]>> {
    const keys = ['one', 'two', 'forced', 'mine', 'mine too', 'free', 'read', 'permits']
    const waiting = (
      await db.query<{ id: string }>(inSchema(db, 'select request as id from $schema.waiters'))
    ).map(({ id }) => id)
    const requests = keys.map(() => randomUUID())
    const tokens = await Promise.all(keys.map(async key => (await token(key)) ?? '7'))
    const held = {
      one: await token('one'),
      mine: await token('mine'),
      dispatched: await token('dispatched'),
      notified: await token('notified'),
      schedule: await token('a schedule:schedule'),
      once: await token('mine:once'),
    }
    const definition = { cron: '0 0 1 1 *', timezone: 'UTC' }
    const json = (args: object) =>
      JSON.stringify({ session: mine, keys, requests, tokens, generation: 1, ...args })
    const dispatched: [string, string][] = [
      ['acquire', json({})],
      ['acquire', json({ wait: keys.map(() => false) })],
      ['cancel', json({})],
      ['clock_stepped', '{}'],
      ['heartbeat', json({})],
      ['open_session', json({ session: randomUUID(), ttl: '30s' })],
      ['raise_generation', json({ generation: 5 })],
      ['withdraw_presence', json({ generation: 7 })],
      ['release', json({ keys: ['dispatched'], tokens: [held.dispatched] })],
      ['release', json({ session: null })],
      ['settle', json({})],
      ['settle', json({ session: null })],
      ['tick', json({})],
      ['turn', json({})],
      ['acquire', json({ asks: keys.map(() => ({ mode: 'shared' })) })],
      ['downgrade', json({ key: 'one', token: held.one })],
      ['resize', json({ key: 'permits', capacity: 3 })],
      ['waits_for', json({ request: requests[0] })],
      ['close_session', json({ session: randomUUID() })],
      ['announce_schedule', json({ schedule: 'a schedule', node: mine, definition })],
      ['look_schedule', json({ schedule: 'a schedule', node: mine })],
      [
        'take_tick',
        json({ schedule: 'a schedule', token: held.schedule, edition: 1, slots: [], starts: true }),
      ],
      ['end_tick', json({ schedule: 'a schedule', token: held.schedule, slot: 0, attempt: 1, failed: true })],
      ['leave_schedule', json({ schedule: 'a schedule', node: mine })],
      ['query_schedules', '{}'],
      ['look_once', json({ key: 'done' })],
      ['record_once', json({ key: 'mine', token: held.once, result: '1', within: 1_000 })],
    ]
    const forced: [string, string][] = [
      ['force_release', JSON.stringify({ key: 'forced', reason: 'why', now: true })],
      ['force_release', JSON.stringify({ key: 'two', reason: 'why' })],
      ['raise_base', JSON.stringify({ reason: 'why' })],
    ]
    return {
      acquire: [
        ['select * from $schema.acquire($1, 1, $2, $3)', mine, keys, requests],
        ['select * from $schema.acquire($1, 1, $2, $3, $4)', mine, keys, requests, keys.map(() => false)],
        ['select * from $schema.acquire($1, 9, $2, $3)', mine, keys, requests],
        ['select * from $schema.acquire($1, 1, $2, $3)', randomUUID(), keys, requests],
        ['select * from $schema.acquire($1, 1, $2, $3)', mine, [...keys, null], [...requests, null]],
      ],
      advisory_lock_within: [['select $schema.advisory_lock_within(array[1], false, 10)']],
      assert_held: [
        ['select $schema.assert_held($1, $2)', 'one', held.one],
        ['select $schema.assert_held($1, 7)', 'one'],
      ],
      cancel: [['select * from $schema.cancel($1, $2, $3)', mine, keys, requests]],
      clock_stepped: [['select $schema.clock_stepped()']],
      dispatch: dispatched.map(([name, args]) => ['select $schema.dispatch($1, $2)', name, args] as const),
      fence: [
        ['select $schema.fence($1, 9)', 'one'],
        ['select $schema.fence($1, 8)', 'one'],
      ],
      fence_table: [
        ['create temporary table fenced_rows (token bigint)'],
        [`select $schema.fence_table('fenced_rows', 'token', quote_literal('r'))`],
        ['insert into fenced_rows default values'],
        [`select $schema.fence_table('$schema.locks', 'token', 'session')`],
      ],
      unfence_table: [
        [`select $schema.unfence_table('fenced_rows')`],
        [`select $schema.unfence_table('$schema.locks')`],
      ],
      fenced: [['select $schema.fenced()']],
      turn: [['select $schema.turn($1, $2, $3)', mine, keys, tokens]],
      downgrade: [
        ['select * from $schema.downgrade($1, $2, $3)', mine, 'one', held.one],
        ['select * from $schema.downgrade(null, $1, $2)', 'one', held.one],
        ['select * from $schema.downgrade($1, $2, $3)', mine, 'read', '7'],
      ],
      resize: [
        ['select * from $schema.resize($1, $2, 4)', mine, 'permits'],
        ['select * from $schema.resize(null, $1, 5)', 'permits'],
        ['select * from $schema.resize(null, $1, 1)', 'one'],
      ],
      waits_for: [
        ['select * from $schema.waits_for($1, $2)', mine, requests[0]],
        ['select * from $schema.waits_for(null, null)'],
        ...waiting.map(id => ['select * from $schema.waits_for($1, $2)', mine, id] as const),
      ],
      release_and_acquire: [
        ['select * from $schema.release_and_acquire($1, 1, $2, 7, $3)', mine, 'one', requests],
        ['select * from $schema.release_and_acquire($1, 9, $2, 7, $3)', mine, 'one', requests],
        ['select * from $schema.release_and_acquire(null, 1, null, null, $1)', requests],
        ['select * from $schema.release_and_acquire($1, 1, $2, 7, null)', mine, 'one'],
      ],
      release_and_notify: [
        ['call $schema.release_and_notify($1, $2, $3, null, null)', mine, keys, keys.map(() => '7')],
        [
          'call $schema.release_and_notify($1, $2, $3, null, $4)',
          mine,
          ['notified'],
          [held.notified],
          'mine',
        ],
        [
          'call $schema.release_and_notify($1, $2, $3, null, $4, 1, $5)',
          mine,
          ['one'],
          ['7'],
          'mine',
          requests,
        ],
      ],
      heartbeat: [
        ['select * from $schema.heartbeat($1)', mine],
        ['select * from $schema.heartbeat($1)', randomUUID()],
        ['select * from $schema.heartbeat(null)'],
      ],
      incarnation: [['select * from $schema.incarnation()']],
      leader: [
        ['select * from $schema.leader($1)', 'led'],
        ['select * from $schema.leader($1)', 'one'],
        ['select * from $schema.leader($1)', 'free'],
        ['select * from $schema.leader(null)'],
      ],
      invoke: dispatched.map(([name, args]) => ['call $schema.invoke($1, $2)', name, args] as const),
      announce_schedule: [
        ['select * from $schema.announce_schedule($1, $2, $3)', 'a schedule', mine, definition],
        ['select * from $schema.announce_schedule($1, $2, $3)', 'a schedule', mine, {}],
        ['select * from $schema.announce_schedule($1, $2, $3, 7)', 'a schedule', mine, definition],
      ],
      leave_schedule: [['select $schema.leave_schedule($1, $2)', 'a schedule', mine]],
      look_schedule: [
        ['select * from $schema.look_schedule($1, $2)', 'a schedule', mine],
        ['select * from $schema.look_schedule($1, null)', 'a schedule'],
      ],
      take_tick: [
        [`select * from $schema.take_tick($1, $2, 1, '{}')`, 'a schedule', held.schedule],
        [`select * from $schema.take_tick($1, 7, 1, '{0}')`, 'a schedule'],
      ],
      end_tick: [
        ['select $schema.end_tick($1, $2, 0, 1, false)', 'a schedule', held.schedule],
        ['select $schema.end_tick($1, 7, 0, 1, false)', 'a schedule'],
      ],
      query_schedules: [['select $schema.query_schedules()']],
      look_once: [['select * from $schema.look_once($1)', 'done']],
      record_once: [
        [`select $schema.record_once($1, $2, '2', 1000)`, 'mine', held.once],
        [`select $schema.record_once($1, 7, '2', 1000)`, 'one'],
      ],
      open_session: [[`select * from $schema.open_session($1, '30s')`, mine]],
      pin: [
        ['select * from $schema.pin($1, $2)', 'one', held.one],
        ['select * from $schema.pin($1, 7)', 'one'],
      ],
      pin_again: [
        ['select $schema.pin_again($1, $2)', 'one', held.one],
        ['select $schema.pin_again($1, 7)', 'one'],
      ],
      present: [['select $schema.present($1, 9)', 'one']],
      presented_setting: [['select $schema.presented_setting()']],
      show_presence: [
        [`select $schema.show_presence($1, 1, '3s')`, mine],
        [`select $schema.show_presence($1, 1, '3s')`, mine],
        [`select $schema.show_presence($1, 1, '1s')`, randomUUID()],
        ['select $schema.show_presence(null, null, null)'],
      ],
      probe_presence: [
        ['select * from $schema.probe_presence($1, $2)', mine, 'one'],
        ['select * from $schema.probe_presence($1, $2)', mine, 'led fast'],
        ['select * from $schema.probe_presence(null, $1)', 'mine'],
        ['select * from $schema.probe_presence(null, null)'],
      ],
      reap_absent: [
        [`select $schema.reap_absent('one', 'x', 1)`],
        [
          `select $schema.reap_absent('led fast', p.peer, p.generation) from $schema.probe_presence($1, 'led fast') p`,
          mine,
        ],
        ['select $schema.reap_absent(null, null, null)'],
      ],
      withdraw_presence: [
        ['select $schema.withdraw_presence($1, 2)', mine],
        ['select $schema.withdraw_presence($1, 2)', randomUUID()],
        ['select $schema.withdraw_presence(null, null)'],
      ],
      query: [['select $schema.query()'], ['select $schema.query($1)', 'one']],
      raise_generation: [
        ['select $schema.raise_generation($1, 1)', randomUUID()],
        ['select $schema.raise_generation($1, 5)', mine],
      ],
      release: [
        ['select * from $schema.release($1, $2, $3)', mine, keys, tokens],
        ['select * from $schema.release($1, $2, $3)', null, keys, tokens],
        ['select * from $schema.release($1, $2, $3)', randomUUID(), keys, tokens],
      ],
      schema_version: [['select * from $schema.schema_version()']],
      settle: [['select * from $schema.settle($1)', mine], ['select * from $schema.settle(null)']],
      tick: [
        ['select * from $schema.tick($1, $2, $3)', mine, keys, requests],
        ['select * from $schema.tick($1, $2, $3)', null, keys, keys.map(() => null)],
      ],
      transaction_status: [
        ['select $schema.transaction_status(pg_current_xact_id(), boot) from $schema.incarnation()'],
      ],
      close_session: [
        ['select * from $schema.close_session($1)', closing],
        ['select * from $schema.close_session(null)'],
      ],
      ...(kind === 'operator' && {
        configure: [[`select $schema.configure(max_ttl => '90s')`]],
        dispatch_operator: forced.map(
          ([name, args]) => ['select $schema.dispatch_operator($1, $2)', name, args] as const,
        ),
        force_release: [
          ['select * from $schema.force_release($1, $2)', 'one', 'why'],
          ['select * from $schema.force_release($1, $2, now => true)', 'one', 'why'],
          ['select * from $schema.force_release($1, $2)', 'free', 'why'],
          ['select * from $schema.force_release($1, $2)', 'two', ' '],
        ],
        invoke_operator: forced.map(
          ([name, args]) => ['call $schema.invoke_operator($1, $2)', name, args] as const,
        ),
        raise_base: [['select $schema.raise_base($1)', 'why']],
      }),
    }
  }

  function expectNothingTold(): void {
    for (const secret of secrets) expect(heard).not.toContain(secret)
    heard = ''
  }

  test('there is something to tell', async () => {
    // Two sessions, and a request for each that they hold or wait for.
    expect(secrets.length).toBeGreaterThanOrEqual(2 + 2 + 6)
    const rows = await db.query(inSchema(db, 'select session, request from $schema.locks'))
    expect(secrets.some(secret => JSON.stringify(rows).includes(secret))).toBe(true)
  })

  test('no relation of the schema, whole or by column', async () => {
    const columns = await db.query<{ relation: string; column: string }>(
      `select c.relname as relation, a.attname as column from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace = $1::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S') and not a.attisdropped`,
      [pg.escapeIdentifier(db.schema)],
    )
    expect(columns.length).toBeGreaterThan(50)
    const readable = new Set<string>()
    for (const { relation, column } of columns) {
      const [name, field] = [relation, column].map(pg.escapeIdentifier)
      const refused = await ask([`select ${field} from $schema.${name}`])
      expect([undefined, '42501']).toContain(refused)
      if (refused === undefined) readable.add(relation)
      // A lock on a row, or a row as a whole, is no way round.
      expect(await ask([`select r from $schema.${name} r for update`]), relation).toMatch(/42501|0A000|42809/)
    }
    expect([...readable].sort()).toEqual(
      kind === 'operator' ? ['events', 'held', 'pending', 'schedule_drift', 'schedules', 'ticks'] : [],
    )
    expectNothingTold()
  })

  test('nothing that the server itself shows: statistics, statements under way, locks', async () => {
    const relations = await db.query<{ name: string }>(
      `select c.oid::regclass::text as name from pg_class c
        where c.relnamespace in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
          and c.relkind in ('r', 'v') and has_table_privilege($1, c.oid, 'select')`,
      [role.name],
    )
    expect(relations.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['pg_stat_activity', 'pg_stats']),
    )
    for (const { name } of relations) await ask([`select * from ${name}`])
    expect(heard).toContain('fencepost')
    expectNothingTold()
  })

  test('no function that is granted, whatever it is asked', async () => {
    const channels = await db.query<{ channel: string }>(
      inSchema(db, 'select channel from $schema.sessions where channel is not null'),
    )
    for (const { channel } of channels) await snoop.query(`listen ${pg.escapeIdentifier(channel)}`)
    const asked = await questions()
    expect(Object.keys(asked).sort()).toEqual((await granted()).sort())
    for (const asks of Object.values(asked)) for (const each of asks) await ask(each)
    // It was answered in earnest: in line, busy, handed to the others, seen.
    for (const said of ['"queued"', '"busy"', '"handed"', '"released"', '"absent"', '"label"']) {
      expect(heard.replaceAll('\\', ''), said).toContain(said)
    }
    expectNothingTold()
  })
})
