// Nodes that say different things of one schedule.
import { describe, expect, test } from 'vitest'
import { Node } from './node.ts'
import { ScheduleStage } from './stage.ts'

const stage = new ScheduleStage()
const [first, second, third] = [{ cron: '0 1 * * *' }, { cron: '0 2 * * *' }, { cron: '0 3 * * *' }]

describe('which definition rules', () => {
  test('the first, where none has a version: the others drift', async () => {
    const [a, b] = [new Node(stage, 's'), new Node(stage, 's')]
    expect(await a.announce(first)).toMatchObject({ definition: first, drifts: false, edition: 1 })
    expect(await b.announce(second)).toMatchObject({ definition: first, drifts: true, edition: 1 })
    expect(await a.look()).toMatchObject({ definition: first, drifts: false })
    expect(
      await stage.db.query(
        `select owner, definition->>'cron' as cron, ruling->>'cron' as ruling from ${stage.sql('schedule_drift')}`,
      ),
    ).toEqual([{ owner: b.id, cron: second.cron, ruling: first.cron }])
  })

  test('the higher version, whoever was first; an explicit one is above none', async () => {
    const [a, b, c] = [new Node(stage, 's'), new Node(stage, 's'), new Node(stage, 's')]
    await a.announce(first)
    expect(await b.announce(second, 1)).toMatchObject({ definition: second, version: 1, edition: 2 })
    expect(await a.announce(first)).toMatchObject({ definition: second, drifts: true, edition: 2 })
    expect(await c.announce(third, 3)).toMatchObject({ definition: third, version: 3, drifts: false })
    expect(await b.announce(second, 1)).toMatchObject({ definition: third, version: 3, drifts: true })
    expect(await b.announce(second, 2)).toMatchObject({ definition: third, version: 3, drifts: true })
  })

  test('of the same version, that which rules already', async () => {
    const [a, b] = [new Node(stage, 's'), new Node(stage, 's')]
    await a.announce(first, 1)
    expect(await b.announce(second, 1)).toMatchObject({ definition: first, drifts: true })
  })

  test('the same definition under another version is no drift', async () => {
    const [a, b] = [new Node(stage, 's'), new Node(stage, 's')]
    await a.announce(first, 1)
    expect(await b.announce(first, 2)).toMatchObject({ version: 2, drifts: false })
    expect(await a.look()).toMatchObject({ version: 2, drifts: false })
    expect(await stage.db.query(`select from ${stage.sql('schedule_drift')}`)).toEqual([])
  })

  test('once all have gone who have it, that of who is left: a deployment needs no version', async () => {
    const [a, b, c] = [new Node(stage, 's'), new Node(stage, 's'), new Node(stage, 's')]
    await a.announce(first)
    await b.announce(first)
    expect(await c.announce(second)).toMatchObject({ drifts: true })
    await a.leave()
    expect(await c.look()).toMatchObject({ definition: first })
    await b.leave()
    expect(await c.look()).toMatchObject({ definition: second, drifts: false })
  })

  test('of who has not said anything for a quarter of an hour no more is heard', async () => {
    const [a, b] = [new Node(stage, 's'), new Node(stage, 's')]
    await stage.setClock('2025-06-01T00:00:00Z')
    await a.announce(first, 7)
    await stage.setClock('2025-06-01T00:14:00Z')
    expect(await b.announce(second)).toMatchObject({ definition: first, drifts: true })
    await stage.setClock('2025-06-01T00:16:00Z')
    expect(await b.announce(second)).toMatchObject({ definition: second, version: null, drifts: false })
  })

  test('nobody is left: it is what it was, and slots that come are missed', async () => {
    const a = new Node(stage, 's')
    await stage.setClock('2025-06-01T00:00:00Z')
    const { upto } = await a.announce(first)
    await a.leave()
    await stage.setClock('2025-06-09T00:00:00Z')
    expect(await a.announce(first)).toMatchObject({ definition: first, upto, edition: 1 })
  })
})

describe('slots, where another definition comes to rule', () => {
  test('of other times count from then on', async () => {
    const [a, b] = [new Node(stage, 's'), new Node(stage, 's')]
    await stage.setClock('2025-06-01T00:00:00Z')
    await a.announce(first)
    await stage.setClock('2025-06-05T12:00:00Z')
    const { upto } = await b.announce(second, 1)
    expect(Math.round(Number(upto) / 60_000) * 60_000).toBe(Date.parse('2025-06-05T12:00:00Z'))
  })

  test('of the same times go on, whatever else is different', async () => {
    const [a, b] = [new Node(stage, 's'), new Node(stage, 's')]
    await stage.setClock('2025-06-01T00:00:00Z')
    const { upto } = await a.announce(first)
    await stage.setClock('2025-06-05T12:00:00Z')
    expect(await b.announce({ ...first, missed: 'all' }, 1)).toMatchObject({ upto, edition: 2 })
  })
})
