// fencepost run --shared and --permits
import { expect, test } from 'vitest'
import { Fencepost } from '../../src/index.ts'
import { clientOptions } from '../support/twist.ts'
import { until } from '../support/until.ts'
import { fencepost } from './fencepost.ts'
import { RunStage } from './run.ts'

const stage = new RunStage()

const noWait = (key: string, flags: readonly string[]) =>
  fencepost(['run', key, '--schema', stage.db.schema, '--no-wait', ...flags, '--', 'echo', 'ran'], {
    DATABASE_URL: stage.db.twistedUrl,
  })
const ran = { code: 0, out: 'ran\n', errors: '' }
const refused = { code: 75, out: '' }

test('--shared: beside others who say so, and never beside one who does not', async () => {
  const key = 'shared'
  const first = stage.run({ key, flags: ['--shared'] })
  const second = stage.run({ key, flags: ['--shared'] })
  const [one, other] = [await first.up(), await second.up()]
  expect(one.token).not.toBe(other.token)
  // A fence lets both in: they have one level.
  expect(one.level).toBe(other.level)
  expect(await noWait(key, [])).toMatchObject(refused)
  expect(await noWait(key, ['--shared'])).toEqual(ran)
  for (const run of [first, second]) {
    run.send('exit', { code: 0 })
    expect(await run.exit).toBe(0)
  }
  expect(await noWait(key, [])).toEqual(ran)
  const alone = stage.run({ key })
  const { token, level } = await alone.up()
  expect(level).toBe(token)
  expect(await noWait(key, ['--shared'])).toMatchObject(refused)
  alone.send('exit', { code: 0 })
  expect(await alone.exit).toBe(0)
  await stage.nothingLeft()
})

test('--permits 1/3: three run at once, and the next one waits in line', async () => {
  const key = 'permits'
  const run = () => stage.run({ key, flags: ['--permits', '1/3'] })
  const runs = [run(), run(), run()]
  for (const each of runs) await each.up()
  expect(await noWait(key, ['--permits', '1/3'])).toMatchObject(refused)
  await using fp = new Fencepost(clientOptions(stage.db))
  expect((await fp.query({ key })).held.map(({ permits, capacity }) => [permits, capacity])).toEqual([
    [1, 3],
    [1, 3],
    [1, 3],
  ])
  const fourth = run()
  await until(async () => (await fp.query({ key })).pending.length === 1)
  expect(fourth.said).toEqual([])
  runs[0]?.send('exit', { code: 0 })
  await fourth.up()
  for (const each of [...runs.slice(1), fourth]) each.send('exit', { code: 0 })
  for (const each of [...runs, fourth]) expect(await each.exit).toBe(0)
  expect(await noWait(key, ['--permits', '3/3'])).toEqual(ran)
  await fp.close()
  await stage.nothingLeft()
})

test('who says another number of permits is refused, and both are named', async () => {
  const key = 'numbers'
  expect(await noWait(key, ['--permits', '1/3'])).toEqual(ran)
  const other = await noWait(key, ['--permits', '1/4'])
  expect(other).toMatchObject({ code: 78, out: '' })
  expect(other.errors).toMatch(/\b3\b/)
  expect(other.errors).toMatch(/\b4\b/)
  const lock = await noWait(key, [])
  expect(lock).toMatchObject({ code: 78, out: '' })
})
