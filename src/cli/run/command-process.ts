import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { exitCode } from '../exit-codes.ts'

export interface CommandProcessOptions {
  readonly command: readonly string[]
  readonly env: NodeJS.ProcessEnv
  /** Leaves it in our process group, and with our terminal: signals then reach it alone, not what it has forked. */
  readonly foreground: boolean
}

/** How it ended: an exit code, or the signal that ended it; or why it did not even start. */
export type Ended =
  | { readonly code: number; readonly signal?: undefined; readonly error?: undefined }
  | { readonly code: number; readonly signal: NodeJS.Signals; readonly error?: undefined }
  | { readonly code: number; readonly signal?: undefined; readonly error: Error }

/** Milliseconds between two looks whether something of the group is left. */
const lookEvery = 20

/**
 * The command that runs under the lock, with our stdin, stdout and stderr. It leads a session, and so a process group,
 * of its own, that a signal reaches as a whole: what it forks as well, unless that has made a session of its own.
 */
export class CommandProcess {
  /** Settles when the command itself has ended. Never rejects. */
  readonly ended: Promise<Ended>
  /** What a signal goes to: a process id, or negative, a process group. Undefined: it did not start. */
  readonly target: number | undefined
  #kill: (() => void) | undefined

  constructor({ command: [file = '', ...args], env, foreground }: CommandProcessOptions) {
    const child = spawn(file, args, { stdio: 'inherit', detached: !foreground, env })
    this.ended = endOf(child)
    this.target = child.pid === undefined ? undefined : foreground ? child.pid : -child.pid
  }

  /** False: nobody is left to be told, or it is another user's. */
  signal(signal: NodeJS.Signals | 0): boolean {
    if (this.target === undefined) return false
    try {
      return process.kill(this.target, signal)
    } catch {
      return false
    }
  }

  /**
   * SIGTERM, and SIGKILL to what is left after so many milliseconds; 0: SIGKILL at once. Settles when nothing is left,
   * or has been killed.
   */
  async end(within: number): Promise<void> {
    const deadline = performance.now() + within
    const cut = new AbortController()
    this.#kill = () => cut.abort()
    if (within > 0) this.signal('SIGTERM')
    // One that was stopped would not hear of it.
    if (within > 0) this.signal('SIGCONT')
    while (this.signal(0) && performance.now() < deadline && !cut.signal.aborted) {
      const left = Math.min(lookEvery, deadline - performance.now())
      await pause(left, undefined, { signal: cut.signal }).catch(() => {})
    }
    this.signal('SIGKILL')
    await this.ended
  }

  /** Cuts short the time that {@link end} gives. */
  kill(): void {
    this.#kill?.()
  }
}

function endOf(child: ChildProcess): Promise<Ended> {
  return new Promise(resolve => {
    child.once('error', (error: NodeJS.ErrnoException) => {
      if (child.pid !== undefined) return
      const code = error.code === 'ENOENT' ? exitCode.notFound : exitCode.notExecutable
      resolve({ code, error })
    })
    child.once('exit', (code, signal) => {
      if (signal === null) resolve({ code: code ?? exitCode.unforeseen })
      else resolve({ code: exitCode.signalled + constants.signals[signal], signal })
    })
  })
}
