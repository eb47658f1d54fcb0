// For child.test.ts: answers each `ask`, and ends as told.
import { listen, say } from './worker.mjs'

listen({
  ask: ({ what }) => say('answer', { what, token: 2n ** 60n }),
  fail: () => {
    throw new Error('told to')
  },
})
console.log('not a message')
say('ready', { args: process.argv.slice(2), pid: process.pid })
