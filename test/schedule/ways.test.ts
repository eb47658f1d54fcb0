// Schedules, and what is done once, over every way of connecting.
import { describe, expect, test } from 'vitest'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { until } from '../support/until.ts'

describe.each(Object.keys(ways) as (keyof typeof ways)[])('%s', way => {
  const stage = new Stage(ways[way])

  test('a schedule: ticks run, fail, are tried again, and are there to be seen', async () => {
    const client = stage.client()
    const attempts: [slot: number, attempt: number][] = []
    const handle = await client.schedule(
      `o'clock "1" \\ ü`,
      '* * * * * *',
      ({ slot, attempt }) => {
        attempts.push([slot.getTime(), attempt])
        if (attempt === 1) throw new Error('a "quoted" \\ error')
      },
      { retry: { attempts: 2, backoff: 0 }, overlap: 'queue', version: 3, onError: () => {} },
    )
    expect(handle.next?.getTime()).toBeGreaterThan(0)
    await until(() => attempts.length >= 4)
    await handle.stop()
    const [overview] = await client.schedules()
    expect(overview).toMatchObject({
      name: `o'clock "1" \\ ü`,
      cron: '* * * * * *',
      version: 3,
      last: { state: 'finished', attempt: 2, error: null, owner: stage.ownerOf(client) },
      counts: { finished: attempts.length / 2, failed: 0, started: 0 },
      nodes: 0,
      drift: [],
    })
    expect(attempts.map(([, attempt]) => attempt)).toEqual(attempts.map((_, i) => (i % 2) + 1))
  })

  test('once: the result is the same for all, whatever is in it', async () => {
    const [one, other] = [stage.client(), stage.client()]
    const result = { text: 'a "quoted" \\ \0 ü', list: [1, null, true], nested: { a: {} } }
    const day = { within: '1d' } as const
    expect(await one.once('k', () => result, day)).toEqual(result)
    expect(await other.once('k', () => 'another', day)).toEqual(result)
    expect(await one.once('nothing', () => {}, day)).toBeUndefined()
    expect(await other.once('nothing', () => 'another' as never, day)).toBeUndefined()
  })
})
