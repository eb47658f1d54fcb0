import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

export interface Ran {
  readonly code: number
  readonly out: string
  readonly errors: string
}

/** Runs the built command, without a database in its environment unless `env` names one. */
export async function fencepost(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ran> {
  const child = spawn(process.execPath, [main, ...args], {
    env: { ...process.env, DATABASE_URL: '', ...env },
  })
  const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { code: child.exitCode ?? -1, out, errors }
}
