// `fencepost run` as PID 1, as in a container that starts it.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { commandScript, main, RunStage } from './run.ts'

const stage = new RunStage()
const isolation = ['--pid', '--fork', '--mount-proc', '--kill-child']
const namespaces = process.getuid?.() === 0 ? isolation : ['--user', '--map-root-user', ...isolation]
// Some systems let only the privileged have a process-id namespace, and only Linux has any. Where there ought to be one,
// as .ci/run says, no test is left out.
const canBeFirst =
  process.env.FENCEPOST_TEST_NAMESPACES !== undefined ||
  spawnSync('unshare', [...namespaces, 'true']).status === 0

/** The wrapper, first in a namespace of its own; what the command says, parsed. */
function start(...command: string[]) {
  const run = ['run', 'k', '--schema', stage.db.schema, '--', process.execPath, commandScript, ...command]
  const child = spawn('unshare', [...namespaces, process.execPath, fileURLToPath(main), ...run], {
    env: { ...process.env, DATABASE_URL: stage.db.twistedUrl },
    // unshare of util-linux 2.38 complains of its own signal mask.
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  const said: Record<string, unknown>[] = []
  createInterface({ input: child.stdout }).on('line', line => said.push(JSON.parse(line)))
  const wrapper = () =>
    Number(spawnSync('ps', ['-o', 'pid=', '--ppid', String(child.pid)], { encoding: 'utf8' }).stdout)
  const closed = once(child, 'close')
  return { said, wrapper, closed }
}

test.runIf(canBeFirst)('passes signals on, and answers with the code of the command', async () => {
  const { said, wrapper, closed } = start('leaves')
  await until(() => said.length > 0)
  expect(said[0]).toMatchObject({ name: 'up', ppid: 1 })
  // Without a handler of its own, the first process of a namespace does not hear it.
  process.kill(wrapper(), 'SIGTERM')
  expect(await closed).toEqual([7, null])
  await stage.nothingLeft()
})

test.runIf(canBeFirst)('is killed: everything in its namespace is', async () => {
  const { said, wrapper, closed } = start('stubborn', 'forks')
  await until(() => said.some(({ name }) => name === 'forked'))
  process.kill(wrapper(), 'SIGKILL')
  await closed
})
