// The queue works at read committed alone and says so; `invoke` brings it there in one round trip.
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

const request = '99999999-9999-4999-8999-999999999999'
const calls: Record<string, (actor: Actor, key: string, token: bigint) => Promise<unknown>> = {
  open_session: actor => actor.open(),
  heartbeat: actor => actor.heartbeat(),
  raise_generation: actor => actor.raiseGeneration(),
  clock_stepped: async actor => {
    await actor.sql('select $schema.clock_stepped()')
  },
  acquire: (actor, key) => actor.acquire(`${key} free`),
  'acquire of what is taken': (actor, key) => actor.acquire(key),
  release: (actor, key, token) => actor.release(key, token),
  'release of what is not there': (actor, key) => actor.release(`${key} free`, 1n),
  cancel: (actor, key) => actor.cancel(key, request),
  tick: (actor, key) => actor.tick([key], [request]),
  settle: actor => actor.sql('select * from $schema.settle($1)', [actor.session]),
  close_session: actor => actor.close(),
}

describe.each(['repeatable read', 'serializable'])('at %s', isolation => {
  test.each(Object.keys(calls))('%s is refused with FP001, and nothing was done', async name => {
    await stage.sql('update $schema.cluster set graced_at = null')
    const key = stage.key()
    const actor = await stage.actor('actor')
    const token = (await actor.acquire(key)).token ?? 0n
    const before = await stage.session(actor)
    await actor.begin(isolation)
    await expect(calls[name]?.(actor, key, token)).rejects.toMatchObject({ code: 'FP001' })
    await actor.rollback()
    expect(await stage.lock(key)).toMatchObject({ session: actor.session, token, contended: false })
    expect(await stage.session(actor)).toMatchObject({ generation: before?.generation, dead: false })
  })

  test('what runs in a user’s transaction is not refused', async () => {
    const key = stage.key()
    const [actor, user] = [await stage.actor('actor'), await stage.actor('user', null)]
    const { token } = await actor.acquire(key)
    await user.begin(isolation)
    await user.guard(key, token)
    await user.sql('select $schema.fence($1, $2)', [key, String(token)])
    await user.commit()
  })

  test('invoke takes, hands over and gives back where that is the default', async () => {
    const key = stage.key()
    const [one, other] = [await stage.actor('one'), await stage.actor('other')]
    for (const actor of [one, other]) await actor.sql(`set default_transaction_isolation = '${isolation}'`)
    const invoke = async (actor: Actor, name: string, args: object) => {
      const text = `call $schema.invoke($1, $2)`
      const [row] = await actor.sql(text, [name, JSON.stringify({ session: actor.session, ...args })])
      return row?.result as (string | null)[][]
    }
    const asked = { generation: 1, keys: [key], requests: [request] }
    const [granted] = await invoke(one, 'acquire', asked)
    expect(granted?.slice(0, 2)).toEqual([request, 'granted'])
    expect(granted?.[2]).toBe(String((await stage.lock(key))?.token))
    const [queued] = await invoke(other, 'acquire', { ...asked, requests: [randomUUID()] })
    expect(queued?.[1]).toBe('queued')
    const released = await invoke(one, 'release', { keys: [key], tokens: [granted?.[2]] })
    expect(released.map(answer => answer[1]).sort()).toEqual(['handed', 'released'])
    expect(await stage.lock(key)).toMatchObject({ session: other.session })
    // It left the connection's default as it was.
    const [setting] = await one.sql('show default_transaction_isolation')
    expect(setting).toEqual({ default_transaction_isolation: isolation })
  })
})
