// A guard never passes with a token that is not the holder's any more, however the grant moved on, and whether the
// guard's snapshot is older than that or it comes while that is being done.
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
  readonly key: string
  readonly holder: Actor
  readonly next: Actor
  readonly guard: Actor
  readonly token: bigint
}

/** Ways to take the grant away; each leaves it with `next`, or with nobody. */
const moves: Record<string, { prepare?(cast: Cast): Promise<unknown>; move(cast: Cast): Promise<unknown> }> =
  {
    'the row was deleted': {
      move: ({ holder, key, token }) => holder.release(key, token),
    },
    'the row was deleted and inserted again': {
      move: async ({ holder, next, key, token }) => {
        await holder.release(key, token)
        if (!(await stage.lock(key))) await next.acquire(key)
      },
    },
    'it was handed over': {
      prepare: ({ next, key }) => next.acquire(key),
      move: ({ holder, key, token }) => holder.release(key, token),
    },
    'it was flagged after the snapshot, then handed over': {
      move: async ({ holder, next, key, token }) => {
        await next.acquire(key)
        await holder.release(key, token)
      },
    },
    'it was flagged, pinned by another guard that ended, then handed over': {
      prepare: ({ next, key }) => next.acquire(key),
      move: async ({ holder, key, token }) => {
        await pinAndEnd(key, token)
        await holder.release(key, token)
      },
    },
    'it was flagged, pinned by another guard while it was being taken, then handed over': {
      move: async ({ holder, next, key, token }) => {
        await next.acquire(key)
        await holder.begin()
        await twoSteps(holder, key, () => pinAndEnd(key, token))
        await holder.release(key, token)
        await holder.commit()
      },
    },
    'it was flagged, and taken on two sides of a savepoint': {
      move: async ({ holder, next, key, token }) => {
        await next.acquire(key)
        await holder.begin()
        await holder.sql('select from $schema.locks where key = $1 for update', [key])
        await holder.sql('savepoint between')
        await holder.release(key, token)
        await holder.commit()
      },
    },
    'it was released under another guard, and handed over by a tick after that': {
      prepare: ({ next, key }) => next.acquire(key),
      move: async ({ holder, next, key, token }) => {
        const other = await stage.actor('other guard', null)
        await other.begin()
        await other.guard(key, token)
        expect((await holder.release(key, token))[0]?.outcome).toBe('pinned')
        await other.commit()
        await next.tick([key], [(await requestOf(key)) ?? ''])
      },
    },
    'its holder expired, and was buried': {
      prepare: ({ next, key }) => next.acquire(key),
      move: async ({ holder, next, key }) => {
        await stage.expire(holder)
        await next.tick([key], [(await requestOf(key)) ?? ''])
      },
    },
    'its session was closed': {
      prepare: ({ next, key }) => next.acquire(key),
      move: ({ holder }) => holder.close(),
    },
  }

/** Who takes a grant away takes two steps; `between` happens between them. */
async function twoSteps(actor: Actor, key: string, between: () => Promise<void>): Promise<void> {
  // Cancelling what is not there locks the row, and does no more.
  expect(await actor.cancel(key, randomUUID())).toMatchObject([{ outcome: 'absent' }])
  await between()
}

async function pinAndEnd(key: string, token: bigint): Promise<void> {
  const other = await stage.actor('other guard', null)
  await other.begin()
  await other.guard(key, token)
  await other.commit()
}

async function requestOf(key: string): Promise<string | undefined> {
  const [row] = await stage.sql('select request from $schema.waiters where key = $1', [key])
  return row?.request
}

async function cast(): Promise<Cast> {
  const key = stage.key()
  const holder = await stage.actor('holder')
  const token = (await holder.acquire(key)).token ?? 0n
  return { key, holder, next: await stage.actor('next'), guard: await stage.actor('guard', null), token }
}

describe.each(['repeatable read', 'serializable'])('a guard at %s with a snapshot from before', isolation => {
  test.each(Object.keys(moves))('is refused: %s', async name => {
    const played = await cast()
    const { guard, key, token } = played
    await moves[name]?.prepare?.(played)
    await guard.begin(isolation)
    await guard.sql('select count(*) from $schema.locks')
    await moves[name]?.move(played)
    expect((await stage.lock(key))?.token).not.toBe(token)
    await expect(guard.guard(key, token)).rejects.toMatchObject({
      code: expect.stringMatching(/^(40001|FP003)$/),
    })
  })
})

describe.each(['read committed', 'repeatable read', 'serializable'])(
  'a guard at %s that comes meanwhile',
  isolation => {
    test.each(['it was handed over', 'the row was deleted'])('waits, and is refused: %s', async name => {
      const played = await cast()
      const { guard, holder, key, token } = played
      await moves[name]?.prepare?.(played)
      await holder.begin()
      await moves[name]?.move(played)
      await guard.begin(isolation)
      const asked = guard.guard(key, token)
      asked.catch(() => {})
      await stage.blocked(guard, holder)
      await holder.commit()
      await expect(asked).rejects.toMatchObject({ code: expect.stringMatching(/^(40001|FP003)$/) })
    })

    test('waits, and is refused: it was pinned by another guard while it was being taken, then handed over', async () => {
      const { guard, holder, next, key, token } = await cast()
      await next.acquire(key)
      await holder.begin()
      await twoSteps(holder, key, () => pinAndEnd(key, token))
      await holder.release(key, token)
      await guard.begin(isolation)
      const asked = guard.guard(key, token)
      asked.catch(() => {})
      await stage.blocked(guard, holder)
      await holder.commit()
      await expect(asked).rejects.toMatchObject({ code: expect.stringMatching(/^(40001|FP003)$/) })
    })

    test('waits, and passes where the change is rolled back', async () => {
      const { guard, holder, key, token } = await cast()
      await holder.begin()
      await holder.release(key, token)
      await guard.begin(isolation)
      const asked = guard.guard(key, token)
      await stage.blocked(guard, holder)
      await holder.rollback()
      await asked
      await guard.commit()
    })
  },
)

test('a guard keeps takers out until it ends, and lets tickets in', async () => {
  const { guard, holder, next, key, token } = await cast()
  await guard.begin()
  await guard.guard(key, token)
  const { request, outcome } = await next.acquire(key)
  expect(outcome).toBe('queued')
  expect((await holder.release(key, token))[0]?.outcome).toBe('pinned')
  // None of these may wait for the guard, or pass it over.
  await stage.reapDue()
  expect(await next.tick([key], [request ?? ''])).toMatchObject([{ outcome: 'queued' }])
  expect((await next.acquire(stage.key(), { wait: false })).outcome).toBe('granted')
  expect(await stage.lock(key)).toMatchObject({ session: holder.session, token, released: true })
  const other = await stage.actor('other guard', null)
  await expect(other.guard(key, token)).rejects.toMatchObject({ code: 'FP003' })
  await guard.commit()
  expect(await next.tick([key], [request ?? ''])).toMatchObject([{ outcome: 'granted' }])
})

test('a guard on a snapshot from before its own grant is refused, for it would read old data', async () => {
  const key = stage.key()
  const guard = await stage.actor('guard', null)
  await guard.begin('repeatable read')
  await guard.sql('select count(*) from $schema.locks')
  const holder = await stage.actor('holder')
  const { token } = await holder.acquire(key)
  await expect(guard.guard(key, token)).rejects.toMatchObject({ code: 'FP003' })
})

test('a guard is refused for another token, another key, a dead session and a released row', async () => {
  const { guard, holder, key, token } = await cast()
  await expect(guard.guard(key, token + 1n)).rejects.toMatchObject({ code: 'FP003' })
  await expect(guard.guard(stage.key(), token)).rejects.toMatchObject({ code: 'FP003' })
  await guard.guard(key, token)
  await stage.sql('update $schema.sessions set died = clock_timestamp() where id = $1', [holder.session])
  await expect(guard.guard(key, token)).rejects.toMatchObject({ code: 'FP003' })
  await stage.sql('update $schema.sessions set died = null where id = $1', [holder.session])
  await guard.guard(key, token)
  await stage.sql('update $schema.locks set released = true where key = $1', [key])
  await expect(guard.guard(key, token)).rejects.toMatchObject({ code: 'FP003' })
})

test('the index that makes a hand-over a key update is plain, and covers no flag', async () => {
  const indexes = await stage.sql(`
    select i.indrelid::regclass::text as "table", i.indpred is null and i.indexprs is null as plain, c.condeferrable as deferrable,
           (select array_agg(a.attname::text order by k.n) from unnest(i.indkey) with ordinality k(attnum, n)
              join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum) as columns
      from pg_index i left join pg_constraint c on c.conindid = i.indexrelid
     where i.indisunique and i.indrelid in (to_regclass('$schema.locks'), to_regclass('$schema.sessions'))`)
  const columns = indexes.map(index => index.columns.join())
  expect(columns.sort()).toEqual(['id', 'id,generation', 'key', 'session,token'])
  expect(indexes.every(index => index.plain && !index.deferrable)).toBe(true)
})
