import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const isolation = ['--pid', '--fork', '--mount-proc', '--kill-child']
const namespaces = process.getuid?.() === 0 ? isolation : ['--user', '--map-root-user', ...isolation]

/**
 * Whether a process can be the first of a namespace here, as in a container. Some systems let only the privileged have a
 * process-id namespace, and only Linux has any. Where there ought to be one, as .ci/run says, no test is left out.
 */
export const canBeFirst: boolean =
  process.env.FENCEPOST_TEST_NAMESPACES !== undefined ||
  spawnSync('unshare', [...namespaces, 'true']).status === 0

interface FirstProcess {
  /** The JSON lines that it said. */
  readonly said: Record<string, unknown>[]
  /** How it is called outside. */
  pid(): number
  /** Its exit code, or the signal that ended it. */
  readonly closed: Promise<[code: number | null, signal: string | null]>
}

/** Runs a script with Node as PID 1. */
export function startFirst(
  script: URL,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): FirstProcess {
  const child = spawn('unshare', [...namespaces, process.execPath, fileURLToPath(script), ...args], {
    env: { ...process.env, ...env },
    // unshare of util-linux 2.38 complains of its own signal mask.
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  const said: Record<string, unknown>[] = []
  createInterface({ input: child.stdout }).on('line', line => said.push(JSON.parse(line)))
  const pid = () =>
    Number(spawnSync('ps', ['-o', 'pid=', '--ppid', String(child.pid)], { encoding: 'utf8' }).stdout)
  return { said, pid, closed: once(child, 'close') as Promise<[number | null, string | null]> }
}
