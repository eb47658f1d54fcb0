import { beforeAll } from 'vitest'
import type { PostgresServer } from '../../src/testing/server.ts'
import { startTestPostgres } from '../support/postgres.ts'
import { Stage } from './stage.ts'

/** A server of the test file's own, to be stopped and crashed, and a stage on it. */
export function serverStage(settings: Record<string, string> = {}): {
  stage: Stage
  server(): PostgresServer
} {
  let server: PostgresServer | undefined
  const stage = new Stage(async () => {
    server = await startTestPostgres({ settings })
    return server.url
  })
  // Ended after the stage's own hooks, which run in the reverse order of these.
  beforeAll(() => async () => await server?.end())
  return {
    stage,
    server: () => {
      if (!server) throw new Error('not before the first test')
      return server
    },
  }
}
