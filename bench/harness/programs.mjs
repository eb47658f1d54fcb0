import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { defer } from './cleanup.mjs'
import { Refusal } from './refusal.mjs'

// The server lives as long as the pipe on descriptor 3, and so no longer than this process, killed or not.
const LEASH = `
"$@" 3<&- & server=$!
{ read -r end <&3; kill "$server"; while kill -0 "$server"; do sleep 0.1; done; rm -rf "$FOLDER"; } 2>/dev/null &
exec 3<&-
wait "$server"
`

/** A TCP port of the loopback interface that was free a moment ago. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  server.close()
  await once(server, 'close')
  return port
}

/**
 * Starts a server, waits until it answers, and has it stopped with the bench.
 * @param {object} program
 * @param {string} program.command
 * @param {string} program.install what to say when the command does not exist
 * @param {string[]} program.args
 * @param {string} program.folder where its data and its log are: removed when it has stopped
 * @param {() => Promise<unknown>} program.answers resolves once the server serves, rejects until then
 */
export async function startProgram({ command, install, args, folder, answers }) {
  const log = join(folder, 'server.log')
  const output = openSync(log, 'a')
  const shell = spawn('/bin/sh', ['-c', LEASH, 'leash', command, ...args], {
    cwd: folder,
    env: { ...process.env, FOLDER: folder },
    stdio: ['ignore', output, output, 'pipe'],
    // Out of reach of a Ctrl-C: it is stopped when its clients have gone.
    detached: true,
  })
  const pipe = /** @type {import('node:net').Socket} */ (shell.stdio[3])
  const ended = once(shell, 'exit')
  let running = true
  void ended.then(() => {
    running = false
  })
  defer(async () => {
    pipe.destroy()
    await Promise.race([ended, pause(20_000, undefined, { ref: false })])
    if (running) process.kill(-Number(shell.pid), 'SIGKILL')
  })

  const deadline = Date.now() + 30_000
  for (;;) {
    const refused = await answers().then(
      () => null,
      error => error,
    )
    if (!running) throw explain(command, shell.exitCode, install, log)
    if (!refused) return
    if (Date.now() > deadline) throw new Error(`${command} does not answer`, { cause: refused })
    await pause(50)
  }
}

/**
 * Why a server ended that was to serve.
 * @param {string} command
 * @param {number | null} code
 * @param {string} install
 * @param {string} log
 */
function explain(command, code, install, log) {
  if (code === 127) return new Refusal(`${command} is not installed: ${install}`)
  return new Refusal(`${command} ended (${code}):\n${readFileSync(log, 'utf8').slice(-2000)}`)
}
