import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { root } from './documents.ts'

export interface Outcome {
  readonly code: number
  /** Both streams. */
  readonly said: string
}

/** A user's project in a folder of its own, with this package and some of its neighbours installed by links. */
export class Project implements Disposable {
  readonly folder: string = realpathSync(mkdtempSync(join(tmpdir(), 'fencepost-project-')))

  constructor(neighbours: readonly string[]) {
    this.write('package.json', JSON.stringify({ type: 'module' }))
    this.link('fencepost', root)
    for (const name of neighbours) this.link(name, join(root, 'node_modules', name))
  }

  link(name: string, to: string): void {
    const link = join(this.folder, 'node_modules', name)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(to, link)
  }

  write(file: string, text: string): void {
    writeFileSync(join(this.folder, file), text)
  }

  run(
    program: string,
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): Promise<Outcome> {
    const options = { cwd: this.folder, env: { ...process.env, ...env }, timeout: 30_000 }
    return new Promise(resolve => {
      execFile(program, args, options, (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
        resolve({ code, said: stdout + stderr })
      })
    })
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true })
  }
}
