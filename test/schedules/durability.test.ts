// What others build on is durable whatever the role's default. Read in the transaction of the call, after it: a
// setting made in the wrong place is undone before the commit.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { nothing } from '../support/leftovers.ts'
import type { Actor } from './support/actor.ts'
import { Stage } from './support/stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.create()
})
afterEach(async () => expect(await stage.clear()).toEqual(nothing))
afterAll(() => stage.drop())

interface Cast {
  readonly actor: Actor
  readonly other: Actor
  readonly key: string
}

/** Calls whose commit must be durable; what they are about has been prepared by `before`. */
const durable: Record<string, { before?(cast: Cast): Promise<unknown>; call(cast: Cast): Promise<unknown> }> =
  {
    open_session: { call: ({ actor }) => actor.open() },
    heartbeat: { call: ({ actor }) => actor.heartbeat() },
    'heartbeat of a session that is over': {
      before: ({ actor }) => actor.close(),
      call: ({ actor }) => actor.heartbeat(),
    },
    'acquire, granted': {
      call: async ({ actor, key }) => expect((await actor.acquire(key)).outcome).toBe('granted'),
    },
    'acquire, queued': {
      before: ({ other, key }) => other.acquire(key),
      call: async ({ actor, key }) => expect((await actor.acquire(key)).outcome).toBe('queued'),
    },
    'acquire, repeated after its grant': {
      before: ({ actor, key }) => actor.acquire(key, { request: repeated }),
      call: async ({ actor, key }) =>
        expect((await actor.acquire(key, { request: repeated })).outcome).toBe('granted'),
    },
    'acquire, a try that buries the holder': {
      before: async ({ other, key }) => {
        await other.acquire(key)
        await stage.expire(other)
      },
      call: async ({ actor, key }) =>
        expect((await actor.acquire(key, { wait: false })).outcome).toBe('again'),
    },
    'release that hands over': {
      before: async ({ actor, other, key }) => {
        await actor.acquire(key)
        await other.acquire(key)
      },
      call: async ({ actor, key }) => handedOver(await actor.release(key, await tokenOf(key))),
    },
    'release that hands over, asked to be asynchronous': {
      before: async ({ actor, other, key }) => {
        await actor.acquire(key)
        await other.acquire(key)
      },
      call: async ({ actor, key }) => handedOver(await actor.release(key, await tokenOf(key), false)),
    },
    'release under a guard, asked to be asynchronous': {
      before: async ({ actor, key }) => {
        const guard = await stage.actor('guard', null)
        await actor.acquire(key)
        await guard.begin()
        await guard.guard(key, await tokenOf(key))
      },
      call: async ({ actor, key }) =>
        expect(await actor.release(key, await tokenOf(key), false)).toMatchObject([{ outcome: 'pinned' }]),
    },
    'release that leaves it to the one who has locked the next session': {
      before: async ({ actor, other, key }) => {
        await actor.acquire(key)
        await other.acquire(key)
        const locker = await stage.actor('locker', null)
        await locker.begin()
        await locker.sql('select from $schema.sessions where id = $1 for update', [other.session])
      },
      call: async ({ actor, key }) => {
        await actor.release(key, await tokenOf(key), false)
        const [row] = await actor.sql('select session from $schema.locks where key = $1', [key])
        expect(row).toEqual({ session: null })
      },
    },
    'cancel that hands over': {
      before: async ({ actor, other, key }) => {
        await actor.acquire(key, { request: repeated })
        await other.acquire(key)
      },
      call: async ({ actor, key }) => handedOver(await actor.cancel(key, repeated)),
    },
    'tick that hands over': {
      before: async ({ actor, other, key }) => {
        await other.acquire(key)
        await actor.acquire(key, { request: repeated })
        await stage.expire(other)
      },
      call: async ({ actor, key }) =>
        expect(await actor.tick([key], [repeated])).toMatchObject([{ outcome: 'granted' }]),
    },
    'tick that buries': {
      before: async ({ other }) => {
        await stage.expire(other)
        await stage.reapDue()
      },
      call: ({ actor }) => actor.tick(),
    },
    raise_generation: { call: ({ actor }) => actor.raiseGeneration() },
    close_session: { call: ({ actor }) => actor.close() },
    clock_stepped: {
      before: () => stage.sql('update $schema.cluster set graced_at = null'),
      call: async ({ actor }) =>
        expect(await actor.sql('select $schema.clock_stepped() as began')).toEqual([{ began: true }]),
    },
    configure: { call: ({ actor }) => actor.sql(`select $schema.configure(max_ttl => '60s')`) },
    'the first call of an incarnation': {
      before: () => stage.sql('delete from $schema.canary'),
      call: ({ actor }) => actor.sql('select * from $schema.settle($1)', [actor.session]),
    },
  }
const repeated = '99999999-9999-4999-8999-999999999999'

const handedOver = (answers: readonly { outcome: string }[]) =>
  expect(answers.map(answer => answer.outcome)).toContain('handed')

async function tokenOf(key: string): Promise<bigint> {
  return (await stage.lock(key))?.token ?? 0n
}

async function setting(actor: Actor): Promise<string | undefined> {
  return (await actor.sql(`select current_setting('synchronous_commit') as value`))[0]?.value
}

/** Who has a session, and in an open transaction under that setting. */
async function cast(value: string, before?: (cast: Cast) => Promise<unknown>): Promise<Cast> {
  const made = { actor: await stage.actor('actor'), other: await stage.actor('other'), key: stage.key() }
  await before?.(made)
  await made.actor.sql(`set synchronous_commit = '${value}'`)
  await made.actor.begin()
  return made
}

describe.each(['off', 'local', 'remote_write'])('where the role’s default is %s', value => {
  test.each(Object.keys(durable))('%s commits at on', async name => {
    const played = await cast(value, durable[name]?.before)
    await durable[name]?.call(played)
    expect(await setting(played.actor)).toBe('on')
    await played.actor.rollback()
    expect(await setting(played.actor)).toBe(value)
  })
})

test.each(Object.keys(durable))('%s leaves what is better than on as it is', async name => {
  const played = await cast('remote_apply', durable[name]?.before)
  const asynchronous = name.includes('asynchronous') || name.includes('the next session')
  await durable[name]?.call(played)
  expect(await setting(played.actor)).toBe(asynchronous ? 'on' : 'remote_apply')
  await played.actor.rollback()
})

test('the release of a key that nobody waits for is asynchronous if asked, and only then', async () => {
  for (const [value, asked, after] of [
    ['on', false, 'off'],
    ['on', true, 'on'],
    ['off', true, 'on'],
    ['off', false, 'off'],
  ] as const) {
    const { actor, key } = await cast(value, ({ actor, key }) => actor.acquire(key))
    expect(await actor.release(key, await tokenOf(key), asked)).toMatchObject([{ outcome: 'released' }])
    expect(await setting(actor)).toBe(after)
    await actor.commit()
  }
})

test('a batch is durable when one key of it was handed over', async () => {
  const lone = stage.key('a lone one')
  const { actor, key } = await cast('on', async ({ actor, other, key }) => {
    await actor.acquireAll([lone, key])
    await other.acquire(key)
  })
  const answers = await actor.releaseAll([lone, key], [await tokenOf(lone), await tokenOf(key)], false)
  expect(answers.map(answer => answer.outcome).sort()).toEqual(['handed', 'released', 'released'])
  expect(await setting(actor)).toBe('on')
  await actor.commit()
})

test('a cancel in line is asynchronous if asked', async () => {
  const { actor, key } = await cast('on', async ({ actor, other, key }) => {
    await other.acquire(key)
    await actor.acquire(key, { request: repeated })
  })
  await actor.sql('select * from $schema.cancel($1, $2, $3, durable => false)', [
    actor.session,
    [key],
    [repeated],
  ])
  expect(await setting(actor)).toBe('off')
  await actor.commit()
})

test('invoke makes it durable, too', async () => {
  // Its transaction is over when it answers; the setting that the commit ran under is seen by a trigger at its end.
  const actor = await stage.actor('actor')
  await stage.sql('create table committed_at (value text)')
  await stage.sql(`
    create function note() returns trigger language plpgsql as $$
    begin insert into public.committed_at values (current_setting('synchronous_commit')); return null; end $$`)
  await stage.sql(`
    create constraint trigger note after insert or update on $schema.locks
    deferrable initially deferred for each row execute function note()`)
  await actor.sql(`set synchronous_commit = 'off'`)
  const key = stage.key()
  const args = { session: actor.session, generation: 1, keys: [key], requests: [randomUUID()] }
  await actor.sql(`call $schema.invoke('acquire', $1)`, [JSON.stringify(args)])
  expect(await stage.lock(key)).toMatchObject({ session: actor.session })
  const noted = await stage.sql('select distinct value from committed_at')
  await stage.sql('drop trigger note on $schema.locks')
  expect(noted).toEqual([{ value: 'on' }])
})
