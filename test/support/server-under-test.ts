import { engineAnswers, startContainer } from './container.ts'
import { startTestPostgres } from './postgres.ts'
import { type Engine, engine } from './settings.ts'

/** The server that all test files share; those that stop or crash theirs start one of their own. */
export interface ServerUnderTest {
  /** Where it came from, in words. */
  readonly origin: string
  /** Of a role that may create databases and roles. */
  readonly adminUrl: string
  /** Absent where the server's log is not on this machine. */
  readonly logFile?: string
  end(): Promise<void>
}

/** DATABASE_URL if set, else a container if an engine answers, else the embedded server. */
export async function startServerUnderTest(): Promise<ServerUnderTest> {
  return await starts[engine ?? (await firstToBeHad())]()
}

async function firstToBeHad(): Promise<Engine> {
  if (process.env.DATABASE_URL) return 'url'
  return (await engineAnswers()) ? 'container' : 'embedded'
}

const starts: Record<Engine, () => Promise<ServerUnderTest>> = {
  url: async () => {
    const adminUrl = process.env.DATABASE_URL
    if (!adminUrl) throw new Error('FENCEPOST_TEST_ENGINE=url needs DATABASE_URL')
    return { origin: 'DATABASE_URL', adminUrl, end: async () => {} }
  },
  container: startContainer,
  embedded: async () => {
    const server = await startTestPostgres({ settings: { max_connections: '300' } })
    return { origin: 'embedded', adminUrl: server.url, logFile: server.logFile, end: () => server.end() }
  },
}
