import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { until } from '../support/until.ts'

/**
 * A shell with job control in a pseudo-terminal, made by `script` of util-linux. What is typed arrives as from a
 * keyboard: `\x03` is ctrl-C, `\x1a` ctrl-Z.
 */
export class Terminal {
  /** What is on the screen, prompts left out; what was typed is there, too. */
  readonly lines: string[] = []
  readonly #script: ChildProcess

  constructor(env: NodeJS.ProcessEnv) {
    this.#script = spawn('script', ['--quiet', '--flush', '--command', 'sh -i', '/dev/null'], {
      env: { ...process.env, ...env, PS1: '', ENV: '' },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    if (this.#script.stdout) {
      createInterface({ input: this.#script.stdout }).on('line', line =>
        this.lines.push(line.trim().replace(/^([#$] )+/, '')),
      )
    }
  }

  type(keys: string): void {
    this.#script.stdin?.write(keys)
  }

  /** Waits for a line that is, or matches, this; answers it. */
  async line(wanted: RegExp): Promise<string> {
    try {
      return await until(() => this.lines.find(line => wanted.test(line)), { within: 10_000 })
    } catch (cause) {
      throw new Error(`no ${wanted} in the terminal; there was:\n${this.lines.join('\n')}`, { cause })
    }
  }

  end(): void {
    this.#script.kill('SIGKILL')
  }
}
