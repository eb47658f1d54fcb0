// For server.test.ts: starts a server and ends as told, without stopping it.
import { startPostgres } from '../../dist/testing/server.js'
import { listen, say } from '../support/worker.mjs'

const { pid, dataDir } = await startPostgres({ binDir: process.env.BIN_DIR })
listen({
  exit: () => process.exit(0),
  exception: () => {
    throw new Error('told to')
  },
})
say('started', { pid, dataDir })
