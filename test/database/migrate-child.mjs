// One of the processes of migrate-together.test.ts: migrates once all of them are there.
import { migrate } from '../../dist/index.js'
import { listen, say } from '../support/worker.mjs'

const [connection, schema] = process.argv.slice(2)
listen({ go: async () => say('migrated', await migrate({ connection, schema })) })
say('ready')
