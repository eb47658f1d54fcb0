// What a role is not granted it does not get: neither by hand nor through a client, which says what is missing.
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Fencepost, type FencepostOptions, type Lock, NotPermittedError } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { createRole, dropRole, type Role } from './support/roles.ts'
import { everyRow, inSchema } from './support/sql.ts'

let db: TestDatabase
let application: Role
let operator: Role
let holder: Fencepost
let lock: Lock
beforeAll(async () => {
  db = await createDatabase()
  application = await createRole(db, 'application')
  operator = await createRole(db, 'operator')
  holder = new Fencepost({ pool: db.pool(), schema: db.schema, owner: 'its holder' })
})
beforeEach(async () => {
  lock = await holder.acquire('k')
})
afterEach(() => lock.release())
afterAll(async () => {
  await holder.close()
  for (const role of [application, operator]) await dropRole(db, role)
  await db.drop()
})

/** What the role is told when it tries: the SQLSTATE, or undefined where it was let. Nothing of it stays. */
async function attempts(role: Role, texts: readonly string[]): Promise<Map<string, string | undefined>> {
  const client = new pg.Client(role.url)
  await client.connect()
  const told = new Map<string, string | undefined>()
  for (const text of texts) {
    await client.query('begin')
    const refusal = await client.query(inSchema(db, text)).catch((error: pg.DatabaseError) => error)
    told.set(text, 'code' in refusal ? refusal.code : undefined)
    await client.query('rollback')
  }
  await client.end()
  return told
}

async function relations(): Promise<{ name: string; kind: string; column: string }[]> {
  return await db.query(
    `select c.oid::regclass::text as name, c.relkind::text as kind, quote_ident(a.attname) as column
       from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum = c.relnatts
      where c.relnamespace = $1::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'c')`,
    [pg.escapeIdentifier(db.schema)],
  )
}

describe.each(['application', 'operator'] as const)('the %s role', kind => {
  const role = () => (kind === 'operator' ? operator : application)

  test('writes no table, draws no number, changes nothing of the schema', async () => {
    const before = await everyRow(db)
    const found = await relations()
    const tables = found.filter(({ kind }) => kind === 'r').map(({ name }) => name)
    expect(tables.length).toBeGreaterThanOrEqual(8)
    const writes = found.flatMap(({ name, kind, column }) => {
      if (kind === 'c') return [`alter type ${name} add attribute extra int`, `drop type ${name} cascade`]
      if (kind === 'S') {
        return [`select nextval('${name}')`, `select setval('${name}', 1)`, `drop sequence ${name} cascade`]
      }
      const [alter, drop] = kind === 'v' ? ['alter view', 'drop view'] : ['alter table', 'drop table']
      return [
        `insert into ${name} default values`,
        `update ${name} set ${column} = ${column}`,
        `update ${name} set ${column} = default where false`,
        `delete from ${name}`,
        `delete from ${name} where false`,
        `select from ${name} for key share`,
        `lock table ${name} in row exclusive mode`,
        `${alter} ${name} owner to current_user`,
        `${drop} ${name} cascade`,
        ...(kind === 'r'
          ? [
              `truncate ${name} cascade`,
              `alter table ${name} disable trigger all`,
              `create index on ${name} (${column})`,
              `create temporary table child (primary key (${column})) inherits (${name})`,
              `copy ${name} from program 'true'`,
            ]
          : []),
      ]
    })
    const told = await attempts(role(), [
      ...writes,
      'create table $schema.more ()',
      'create function $schema.more() returns int language sql as $$ select 1 $$',
      'drop schema $schema cascade',
      'alter schema $schema rename to other',
      `select $schema.grant_operator(current_user)`,
      `select $schema.grant_routines(current_user, array['grace'])`,
      'set role pg_read_all_data',
      `set session_replication_role = 'replica'`,
    ])
    expect(told.size).toBeGreaterThan(100)
    // A view of several tables is refused before anybody asks who wants to write it.
    const wrong = [...told].filter(
      ([text, code]) =>
        code !== '42501' && !(code === '55000' && /held|pending|here|schedule_drift/.test(text)),
    )
    expect(wrong).toEqual([])
    expect(await everyRow(db)).toBe(before)
  })

  test('calls nothing that was not meant for it, by no name', async () => {
    const before = await everyRow(db)
    const internal = await db.query<{ call: string; name: string }>(
      `select format('%s %s(%s)', case p.prokind when 'p' then 'call' else 'select' end, p.oid::regproc,
                (select string_agg('null::' || format_type(t, null), ', ') from unnest(p.proargtypes) t)) as call,
              p.proname::text as name
         from pg_proc p where p.pronamespace = $2::regnamespace and not has_function_privilege($1, p.oid, 'execute')`,
      [role().name, pg.escapeIdentifier(db.schema)],
    )
    const names = internal.map(({ name }) => name)
    expect(names).toEqual(
      expect.arrayContaining(['bury', 'grace', 'hand_over', 'take', 'note', 'enter', 'grant_operator']),
    )
    const operators = ['configure', 'dispatch_operator', 'force_release', 'invoke_operator', 'raise_base']
    expect(operators.every(name => names.includes(name))).toBe(kind === 'application')
    const told = await attempts(
      role(),
      internal.map(({ call }) => call),
    )
    expect([...told].filter(([, code]) => code !== '42501')).toEqual([])

    // Nor by the way that takes a name: it knows the functions of the queue and no others.
    const client = new pg.Client(role().url)
    await client.connect()
    const args = JSON.stringify({
      key: 'k',
      reason: 'why',
      role: role().name,
      session: randomUUID(),
      keys: ['k'],
    })
    for (const name of [
      ...names,
      ...operators,
      'query',
      'pin',
      'fence',
      `settle'`,
      'SETTLE',
      'pg_sleep',
      '',
    ]) {
      for (const road of [
        ['invoke', 'call'],
        ...(kind === 'operator' ? [['invoke_operator', 'call']] : []),
      ]) {
        if (road[0] === 'invoke_operator' && ['force_release', 'raise_base'].includes(name)) continue
        const { rows } = await client.query(inSchema(db, `${road[1]} $schema.${road[0]}($1, $2)`), [
          name,
          args,
        ])
        expect(rows, `${road[0]} ${name}`).toEqual([{ result: null }])
      }
    }
    await client.end()
    expect(await everyRow(db)).toBe(before)
  })
})

const roads: Record<string, (pool: pg.Pool) => Partial<FencepostOptions>> = {
  'a pool': pool => ({ pool }),
  // As behind a transaction pooler: each call through a procedure.
  'a pool without listening': pool => ({ pool, listen: false }),
  'a query function': pool => ({
    pool: { query: (text: string, values?: unknown[]) => pool.query(text, values) },
  }),
}

describe.each(Object.entries(roads))('through %s', (_, road) => {
  async function as<T>(role: Role, work: (client: Fencepost) => Promise<T>): Promise<T> {
    const pool = db.pool({ connectionString: role.url })
    const client = new Fencepost({ ...road(pool), schema: db.schema, owner: 'somebody' })
    try {
      // By now the client knows which road it has.
      expect(await (await client.acquire('other')).release()).toBe('released')
      return await work(client)
    } finally {
      await client.close()
    }
  }

  test('who is no operator forces nothing and raises nothing, and is told which role it takes', async () => {
    const before = await everyRow(db)
    await as(application, async client => {
      const taken = [
        client.forceRelease('k', { reason: 'I want it' }),
        client.forceRelease('k', { reason: 'I want it', token: lock.token, now: true }),
        client.forceRelease('nobody has it', { reason: 'I want it' }),
        client.raiseBase({ reason: 'higher' }),
      ]
      for (const outcome of await Promise.allSettled(taken)) {
        expect(outcome).toMatchObject({
          status: 'rejected',
          reason: { code: 'not_permitted', cause: { code: '42501' } },
        })
        const { reason } = outcome as PromiseRejectedResult
        expect(reason).toBeInstanceOf(NotPermittedError)
        expect(reason.message).toMatch(
          /^permission denied for (function|procedure) (force_release|raise_base|invoke_operator): it takes the operator's role, "fencepost migrate --grant-operator ROLE"$/,
        )
      }
      // It goes on being a client like any other.
      expect(await client.tryAcquire('k')).toBeNull()
      expect((await client.query({ key: 'k' })).held).toMatchObject([{ token: lock.token, state: 'held' }])
    })
    const own = (text: string) => JSON.parse(text).locks
    expect(own(await everyRow(db))).toEqual(own(before))
    expect(JSON.parse(await everyRow(db)).events).toEqual(JSON.parse(before).events)
    expect(JSON.parse(await everyRow(db)).cluster).toEqual(JSON.parse(before).cluster)
    await lock.renew()
    expect(lock.state).toBe('held')
  })

  test('the operator’s role is all that it takes', async () => {
    await as(operator, async client => {
      const taken = await client.forceRelease('k', { reason: 'stuck', token: lock.token, now: true })
      expect(taken).toMatchObject({ outcome: 'released', token: lock.token })
      expect(await client.raiseBase({ reason: 'restored' })).toBeGreaterThan(lock.token)
    })
    // Who it was is what the server knows, and not what the client calls itself.
    const events = await db.query(
      inSchema(
        db,
        'select what, role, by, reason, key, token, owner from $schema.events order by id desc limit 2',
      ),
    )
    const ours = { role: operator.name, by: 'somebody' }
    expect(events.reverse()).toEqual([
      { ...ours, what: 'forced', reason: 'stuck', key: 'k', token: String(lock.token), owner: 'its holder' },
      { ...ours, what: 'raised', reason: 'restored', key: null, token: null, owner: null },
    ])
  })
})
