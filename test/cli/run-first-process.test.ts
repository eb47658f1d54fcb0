// `fencepost run` as PID 1, as in a container that starts it.
import { expect, test } from 'vitest'
import { canBeFirst, startFirst } from '../support/first-process.ts'
import { until } from '../support/until.ts'
import { commandScript, main, RunStage } from './run.ts'

const stage = new RunStage()

/** The wrapper, first in a namespace of its own; what the command says, parsed. */
function start(...command: string[]) {
  const run = ['run', 'k', '--schema', stage.db.schema, '--', process.execPath, commandScript, ...command]
  return startFirst(main, run, { DATABASE_URL: stage.db.twistedUrl })
}

test.runIf(canBeFirst)('passes signals on, and answers with the code of the command', async () => {
  const { said, pid, closed } = start('leaves')
  await until(() => said.length > 0)
  expect(said[0]).toMatchObject({ name: 'up', ppid: 1 })
  // Without a handler of its own, the first process of a namespace does not hear it.
  process.kill(pid(), 'SIGTERM')
  expect(await closed).toEqual([7, null])
  await stage.nothingLeft()
})

test.runIf(canBeFirst)('is killed: everything in its namespace is', async () => {
  const { said, pid, closed } = start('stubborn', 'forks')
  await until(() => said.some(({ name }) => name === 'forked'))
  process.kill(pid(), 'SIGKILL')
  await closed
})
