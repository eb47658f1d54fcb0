import { spawn } from 'node:child_process'
import type { Socket } from 'node:net'

// kill is given CONT as well, for a command that was stopped.
const script = `
read -r target || exit 0
read -r ended && exit 0
kill -s TERM -- "$target" || exit 0
kill -s CONT -- "$target"
waited=0
while [ "$waited" -lt "$1" ] && kill -s 0 -- "$target"; do sleep 0.1; waited=$((waited + 1)); done
kill -s KILL -- "$target"
`

/**
 * Ends the command when this process is killed, which cannot be told by itself: Node has no parent-death signal. A
 * small shell in a session of its own reads from a pipe that only this process holds; at its end it sends SIGTERM, and
 * SIGKILL after the grace.
 */
export class Guardian {
  readonly #pipe: Socket

  /** @param grace milliseconds @param absent there is no /bin/sh, and so no guardian */
  constructor(grace: number, absent: (error: Error) => void) {
    const shell = spawn('/bin/sh', ['-c', script, 'fencepost-guardian', String(Math.ceil(grace / 100))], {
      cwd: '/',
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    shell.on('error', absent)
    shell.unref()
    this.#pipe = shell.stdin as Socket
    this.#pipe.on('error', () => {})
    this.#pipe.unref()
  }

  /** Written to the pipe before this returns. @param target a process id; negative: a process group */
  watch(target: number): void {
    this.#pipe.write(`${target}\n`)
  }

  /** The command has ended. */
  release(): void {
    this.#pipe.end('ended\n')
  }
}
