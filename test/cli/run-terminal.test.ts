// `fencepost run` typed into a shell in a terminal.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { commandScript, main, RunStage, stateOf } from './run.ts'
import { Terminal } from './terminal.ts'

const stage = new RunStage()
// Its options are others elsewhere, where these tests are marked as skipped. Where they run, they run or fail.
const isLinux = process.platform === 'linux'

let terminal: Terminal
beforeEach(() => {
  terminal = new Terminal({ DATABASE_URL: stage.db.twistedUrl, FENCEPOST_SCHEMA: stage.db.schema })
})
afterEach(() => terminal.end())

/** Types the command line, and waits until the command is up. */
async function run(flags: string, ...command: string[]): Promise<{ pid: number; isTerminal: boolean }> {
  const node = process.execPath
  const line = `${node} ${fileURLToPath(main)} run k --schema "$FENCEPOST_SCHEMA" ${flags} -- ${node} ${commandScript}`
  terminal.type(`${line} ${command.join(' ')}; echo "code=$?"\n`)
  return JSON.parse(await terminal.line(/^\{"name":"up"/))
}

const said = (signal: string) => terminal.lines.filter(line => line.includes(`"signal":"${signal}"`)).length

const parentOf = (pid: number) =>
  Number(spawnSync('ps', ['-o', 'ppid=', '-p', String(pid)], { encoding: 'utf8' }).stdout)

describe.runIf(isLinux).each([
  { name: 'in a session of its own', flags: '' },
  { name: 'in the foreground', flags: '--foreground' },
])('$name', ({ flags }) => {
  test('the command has the terminal for its stdin and stdout, and what is typed', async () => {
    expect(await run(flags)).toMatchObject({ isTerminal: true })
    terminal.type('{"name":"echo","text":"typed"}\n')
    await terminal.line(/^\{"name":"echoed","text":"typed"\}/)
    terminal.type('{"name":"exit","code":6}\n')
    await terminal.line(/code=6/)
  })

  test('who looks from another terminal sees the table, and finds nothing once it has ended', async () => {
    const { pid } = await run(flags)
    const other = new Terminal({ DATABASE_URL: stage.db.twistedUrl, FENCEPOST_SCHEMA: stage.db.schema })
    try {
      const look = `${process.execPath} ${fileURLToPath(main)} status --schema "$FENCEPOST_SCHEMA"`
      other.type(`${look}; echo "code=$?"\n`)
      await other.line(/^KEY +MODE +STATE +TOKEN +HOLDER/)
      await other.line(new RegExp(`^k +exclusive +held +\\d+ .*:${parentOf(pid)} `))
      await other.line(/^code=0/)
      terminal.type('{"name":"exit","code":0}\n')
      await terminal.line(/code=0/)
      other.type(`${look}; echo "code=$?"\n`)
      await other.line(/^nothing is held/)
    } finally {
      other.end()
    }
  })

  test('ctrl-C reaches it once', async () => {
    await run(flags, 'stubborn')
    terminal.type('\x03')
    await until(() => said('SIGINT') > 0)
    terminal.type('{"name":"echo","text":"after"}\n')
    await terminal.line(/^\{"name":"echoed","text":"after"\}/)
    expect(said('SIGINT')).toBe(1)
    terminal.type('{"name":"exit","code":0}\n')
    await terminal.line(/code=0/)
  })

  test('ctrl-C ends one that does not handle it, and the lock is free', async () => {
    await run(flags)
    terminal.type('\x03')
    await stage.nothingLeft()
    await terminal.line(/code=130/)
  })

  test('ctrl-Z stops it, fg goes on', async () => {
    const { pid } = await run(flags, 'stubborn')
    const wrapper = parentOf(pid)
    terminal.type('\x1a')
    await until(() => stateOf(pid) === 'T' && stateOf(wrapper) === 'T')
    terminal.type('fg\n')
    await until(() => said('SIGCONT') > 0)
    terminal.type('{"name":"exit","code":9}\n')
    await until(() => stateOf(wrapper) === '')
    await stage.nothingLeft()
  })

  test('the terminal is closed: the command has ended', async () => {
    const { pid } = await run(flags)
    terminal.end()
    await until(() => stateOf(pid) === '' || stateOf(pid) === 'Z')
    await stage.nothingLeft()
  })
})
