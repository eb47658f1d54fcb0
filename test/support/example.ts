import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('../../examples/main.mjs', import.meta.url))

/** Runs an example as `npm run example` does, but for the build. `said` is both of its streams. */
export function example(...args: string[]): Promise<{ code: number; said: string }> {
  return new Promise(resolve => {
    execFile(process.execPath, [script, ...args], (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code ?? -1) : 0, said: stdout + stderr })
    })
  })
}
