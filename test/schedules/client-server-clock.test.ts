// A server whose clock is really stepped, under clients that hold and wait: nobody is evicted, and the dead still go.
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Lock } from '../../src/index.ts'
import type { PostgresServer } from '../../src/testing/server.ts'
import { startTestPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { Clients } from './support/clients.ts'
import { Stage } from './support/stage.ts'
import { watched } from './support/watched.ts'

const libfaketime = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1'
const ttl = 2_400

describe.runIf(existsSync(libfaketime))('the server’s clock', () => {
  let folder: string
  let server: PostgresServer
  let stage: Stage
  let clients: Clients

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'fencepost-server-clock-'))
    chmodSync(folder, 0o755)
    setOffset(0)
    server = await startTestPostgres({
      env: {
        LD_PRELOAD: libfaketime,
        FAKETIME_TIMESTAMP_FILE: join(folder, 'offset'),
        FAKETIME_NO_CACHE: '1',
        // It would wait for a semaphore, also for one that a killed process holds.
        NO_FAKE_STAT: '1',
        FAKETIME_DONT_FAKE_MONOTONIC: '1',
        DONT_FAKE_MONOTONIC: '1',
      },
    })
    stage = await Stage.create({ adminUrl: server.url })
    clients = new Clients(stage)
  })
  afterEach(() => clients.end())
  afterAll(async () => {
    await server.end()
    rmSync(folder, { recursive: true })
  })

  const setOffset = (seconds: number) =>
    writeFileSync(join(folder, 'offset'), `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}s`)

  /** How far the server's clock is from ours, in seconds. */
  async function offset(): Promise<number> {
    const [row] = await stage.sql(`select extract(epoch from clock_timestamp())::float8 as now`)
    return row?.now - Date.now() / 1_000
  }

  async function step(seconds: number): Promise<void> {
    await stage.sql('update $schema.cluster set graced_at = null')
    setOffset(seconds)
    await until(async () => Math.abs((await offset()) - seconds) < 5)
  }

  test.each([600, 0, -600])(
    'is stepped to %i s from ours: nothing is lost, and nobody enters',
    async seconds => {
      const holders = [1, 2, 3, 4].map(() => clients.direct({ ttl }))
      const locks: Lock[] = []
      for (const [i, holder] of holders.entries()) locks.push(await holder.acquire(`key ${i}`))
      const waiting = holders.map((_, i) =>
        watched(clients.direct({ ttl, poll: '100ms' }).acquire(`key ${i}`)),
      )
      await until(async () => (await stage.sql('select from $schema.waiters')).length === waiting.length)
      const base = (await stage.sql('select base from $schema.cluster'))[0]?.base

      await step(seconds)
      const seen = new Set<string>()
      const stepped = performance.now()
      await until(
        () => {
          for (const lock of locks) seen.add(lock.state)
          return performance.now() - stepped > 2 * ttl
        },
        { within: 3 * ttl },
      )
      expect([...seen]).toEqual(['held'])
      expect(waiting.map(each => each.state)).toEqual(waiting.map(() => 'open'))
      expect((await stage.sql('select base from $schema.cluster'))[0]?.base).toBe(base)
      for (const [i, lock] of locks.entries()) {
        expect(await stage.lock(`key ${i}`)).toMatchObject({ token: lock.token })
        expect(await lock.release()).toBe('released')
        expect((await waiting[i]?.promise)?.token).toBeGreaterThan(lock.token)
      }
    },
  )

  test('was stepped, and one who died before that is replaced within a grace', async () => {
    const dead = await stage.actor('dead', '2.4s')
    await dead.acquire('k')
    const next = watched(clients.direct({ ttl }).acquire('k'))
    await until(async () => (await stage.line('k')).length === 1)
    await step(1_200)
    await until(() => next.state === 'answered', { within: 3 * ttl })
  })
})
