// A process that runs schedules, and does things once, as the test says. It handles no stray rejection: that would end it.
import { Fencepost } from '../../dist/index.js'
import { listen, say } from '../support/worker.mjs'

const options = JSON.parse(process.argv[2])
const fp = new Fencepost(options)
const handles = new Map()
const clock = () => Number(process.hrtime.bigint() / 1000n) / 1000

/** Works for so long, or for ever. */
const work = async ms => {
  if (ms === null) await new Promise(() => {})
  else await new Promise(resolve => setTimeout(resolve, ms))
}

listen({
  schedule: async ({ id, cron, settings, ms = 0 }) => {
    const run = async ({ slot, attempt }) => {
      say('began', { id, slot: slot.getTime(), attempt, at: clock() })
      await work(ms)
      say('ran', { id, slot: slot.getTime(), attempt, at: clock() })
    }
    handles.set(id, await fp.schedule(id, cron, run, { ...settings, onError: () => {} }))
    say('scheduled', { id })
  },
  stop: async ({ id }) => {
    await handles.get(id).stop()
    say('stopped', { id })
  },
  once: async ({ key, ms, value }) => {
    const run = async () => {
      say('began', { key, at: clock() })
      await work(ms)
      return value
    }
    try {
      say('done', { key, value: await fp.once(key, run, { within: '1h' }) })
    } catch (error) {
      say('failed', { key, code: error.code })
    }
  },
  // The wall clock of this process from now on.
  step: ({ ms }) => {
    const real = Date.now
    Date.now = () => real.call(Date) + ms
    say('stepped')
  },
  close: async () => {
    await fp.close()
    say('closed')
    process.exit(0)
  },
})
say('ready')
