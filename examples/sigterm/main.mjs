/**
 * What a deploy does: `npm run example -- sigterm`. A worker has a lock for 30 s, renewed each 10 s, and is at work under it
 * when it is told to go (SIGTERM); the next one is in line. Exit code 0: the next one had the lock within half a second of
 * the signal, after the worker had come to the end of its step under it, and the worker ended by the signal. 1: not so.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Fencepost } from 'fencepost'
import { Process } from '../process.mjs'
import { withServer } from '../server.mjs'

/** Milliseconds. */
const most = 500

process.exitCode = await withServer(async ({ url, pool }) => {
  const worker = new Process(new URL('worker.mjs', import.meta.url), url)
  const fp = new Fencepost({ pool })
  try {
    const { token } = await worker.next('holds')
    console.log(`the worker (pid ${worker.pid}) has the lock, token ${token}, and is at work`)
    const next = fp.acquire('report').then(lock => ({ lock, at: performance.now() }))
    while ((await fp.query({ key: 'report' })).pending.length === 0) await pause(20)
    const [holding] = (await fp.query({ key: 'report' })).held
    console.log(`we are in line; its lock would last for ${(holding.ttlLeft / 1000).toFixed(0)} s without it`)
    const told = performance.now()
    worker.signal('SIGTERM')
    const { lock, at } = await next
    const { reason, state, steps } = await worker.next('stopped')
    const ended = await worker.ended
    console.log(`told to go, it came to the end of step ${steps} (signal: ${reason}; its lock: ${state})`)
    console.log(`we had the lock ${(at - told).toFixed(0)} ms after the signal, token ${lock.token}`)
    console.log(`the worker ended: ${ended}`)
    const wasHandedOver = at - told <= most && lock.token > BigInt(token)
    return wasHandedOver && reason === 'shutdown' && state === 'held' && ended === 'SIGTERM' ? 0 : 1
  } finally {
    await fp.close()
    await worker.kill()
  }
})
