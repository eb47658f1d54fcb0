// `fencepost schedule`, on one machine and on two, and `fencepost schedules`.
import { escapeIdentifier } from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Child } from '../support/child.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { fencepost } from './fencepost.ts'
import { isAlive, main } from './run.ts'

let db: TestDatabase
let machines: Child[] = []
beforeAll(async () => {
  db = await createDatabase()
})
beforeEach(async () => {
  for (const table of ['ticks', 'schedule_nodes', 'schedules'])
    await db.query(`delete from ${escapeIdentifier(db.schema)}.${table}`)
})
afterEach(async () => {
  await Promise.all(machines.map(machine => machine.kill()))
  machines = []
})
afterAll(() => db.drop())

const eachSecond = '* * * * * *'

function schedule(flags: readonly string[], script: string, cron = eachSecond, name = 's'): Child {
  const args = ['schedule', name, cron, '--schema', db.schema, '--json', '--ttl', '2s', ...flags]
  const machine = new Child(main, {
    args: [...args, '--', 'sh', '-c', script],
    env: { DATABASE_URL: db.twistedUrl },
  })
  machines.push(machine)
  return machine
}

/** What a machine itself has said. */
const notes = (machine: Child, event: string): Record<string, unknown>[] =>
  machine.log.map(line => parse(line)).filter(note => note.event === event)

function parse(line: string): Record<string, unknown> {
  try {
    return JSON.parse(line)
  } catch {
    return {}
  }
}

interface Row {
  readonly slot: string
  readonly state: string
  readonly attempt: number
  readonly error: string | null
}
const ticks = (): Promise<Row[]> =>
  db.query<Row & Record<string, unknown>>(
    `select to_char(slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as slot, state, attempt, error
       from ${escapeIdentifier(db.schema)}.ticks where name = 's' order by slot`,
  )

/** Two slots may have come before the lease was there: then the first is missed. */
const started = async () => (await ticks()).filter(({ attempt }) => attempt > 0)

/** Says so much of its environment. */
const tell = `echo "{\\"name\\":\\"ran\\",\\"slot\\":\\"$FENCEPOST_SLOT\\",\\"attempt\\":\\"$FENCEPOST_ATTEMPT\\",\\"key\\":\\"$FENCEPOST_KEY\\",\\"token\\":\\"$FENCEPOST_TOKEN\\"}"`

test('each slot is run once among two machines, and the command knows which it is', async () => {
  const [one, other] = [schedule([], tell), schedule([], tell)]
  await until(() => one.said.length + other.said.length >= 4)
  for (const machine of [one, other]) {
    expect(await machine.kill('SIGTERM')).toBe(0)
  }
  const ran = [...one.said, ...other.said].map(({ slot }) => String(slot)).sort()
  expect(ran).toEqual((await started()).map(({ slot }) => slot))
  for (const { state } of await started()) expect(state).toBe('finished')
  for (const said of [...one.said, ...other.said])
    expect(said).toMatchObject({ attempt: '1', key: 's:schedule', token: expect.stringMatching(/^\d+$/) })
})

test('a command that fails: its tick has failed, and is tried again where that is said', async () => {
  const machine = schedule(['--attempts', '2'], 'exit 3')
  await until(async () => (await ticks()).some(({ state }) => state === 'failed'))
  expect((await started())[0]).toMatchObject({
    state: 'failed',
    attempt: 2,
    error: 'the command ended with 3',
  })
  expect(notes(machine, 'failed')[0]).toMatchObject({ schedule: 's', message: 'the command ended with 3' })
})

test('a command that is not there, and one that a signal ends', async () => {
  const about = ['--schema', db.schema, '--ttl', '2s', '--json']
  const args = ['schedule', 's', eachSecond, ...about, '--', '/no/such/command']
  machines.push(new Child(main, { args, env: { DATABASE_URL: db.twistedUrl } }))
  await until(async () => (await ticks()).some(({ error }) => error?.startsWith('the command cannot be run')))
  await machines.pop()?.kill('SIGTERM')
  schedule([], 'kill -KILL $$')
  await until(async () => (await ticks()).some(({ error }) => error === 'the command was ended by SIGKILL'))
})

test('a command that takes too long is ended, with what it has forked', async () => {
  const machine = schedule(
    ['--timeout', '300ms', '--grace', '200ms'],
    `sleep 60 & echo "{\\"name\\":\\"up\\",\\"pid\\":$!}"; trap '' TERM; wait; sleep 60`,
  )
  const { pid } = await machine.message('up')
  await until(async () => (await started())[0]?.state === 'failed')
  expect((await started())[0]?.error).toContain('took longer than 300 ms')
  await until(() => !isAlive(pid))
})

test('SIGTERM is passed on to the command, which is waited for', async () => {
  const machine = schedule(
    [],
    `trap 'echo "{\\"name\\":\\"told\\"}"; exit 0' TERM; echo "{\\"name\\":\\"up\\"}"; while :; do sleep 0.05; done`,
  )
  await machine.message('up')
  expect(await machine.kill('SIGTERM')).toBe(0)
  expect(machine.said.map(({ name }) => name)).toEqual(['up', 'told'])
  expect((await started())[0]?.state).toBe('finished')
})

test('a machine that is killed: its command is ended, and another runs what it may', async () => {
  const flags = ['--attempts', '2', '--overlap', 'queue', '--missed', 'all']
  const script = `echo "{\\"name\\":\\"up\\",\\"pid\\":$$,\\"slot\\":\\"$FENCEPOST_SLOT\\",\\"attempt\\":$FENCEPOST_ATTEMPT}"`
  const victim = schedule(flags, `${script}; sleep 60`)
  const { pid, slot } = await victim.message('up')
  const other = schedule(flags, script)
  await until(() => notes(other, 'scheduled').length === 1)
  await victim.kill()
  expect(await other.message('up')).toMatchObject({ slot, attempt: 2 })
  expect(isAlive(pid)).toBe(false)
})

test('another definition is told of', async () => {
  schedule([], 'true', '0 0 1 1 *')
  await until(async () => (await fencepostSchedules()).length === 1)
  const other = schedule([], 'true', '0 0 2 2 *')
  await until(() => notes(other, 'warning').length === 1)
  expect(notes(other, 'warning')[0]?.message).toContain('cron "0 0 1 1 *", not "0 0 2 2 *"')
  const [overview] = await fencepostSchedules()
  expect(overview).toMatchObject({ nodes: 2, drift: [{ cron: '0 0 2 2 *' }] })
})

test('a database that cannot be reached: 69', async () => {
  const args = ['schedule', 's', eachSecond, '--url', 'postgres://u@127.0.0.1:1/x', '--', 'true']
  expect(await fencepost(args)).toMatchObject({ code: 69, out: '' })
})

// biome-ignore lint/suspicious/noExplicitAny: what the command prints
async function fencepostSchedules(): Promise<any[]> {
  const { code, out, errors } = await run('--json')
  expect({ code, errors }).toEqual({ code: 0, errors: '' })
  return JSON.parse(out).schedules
}

const run = (...flags: string[]) =>
  fencepost(['schedules', '--schema', db.schema, ...flags], { DATABASE_URL: db.twistedUrl })

describe('schedules', () => {
  test('of nothing', async () => {
    expect(await run()).toEqual({ code: 0, out: 'nothing is scheduled\n', errors: '' })
  })

  test('last and next ticks, and what is amiss', async () => {
    const machine = schedule(['--timezone', 'Asia/Kathmandu'], 'exit 1')
    await until(async () => (await ticks()).filter(({ state }) => state === 'failed').length >= 2)
    await machine.kill('SIGTERM')
    const { code, out } = await run()
    expect(code).toBe(0)
    const [head, row] = out.trimEnd().split('\n')
    expect(head).toMatch(
      /^NAME +CRON +TIMEZONE +LAST +STATE +NEXT +RUNNING +DUE +MISSED +SKIPPED +FAILED +NODES +DRIFT$/,
    )
    expect(row).toMatch(/^s +\* \* \* \* \* \* +Asia\/Kathmandu +\S+Z +\w+ +\S+Z +0 +0 +\d+ +\d+ +\d+ +0 +-$/)
  })
})
