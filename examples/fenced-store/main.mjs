/**
 * Data outside of the database, behind a fence: `npm run example -- fenced-store`. A process reads a file under a lock,
 * stands still for longer than its lock lasts, and writes when it wakes. Exit code 0: its write was refused, and what the
 * next holder wrote is there. 1: not so.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Fencepost, FileFencedStore } from 'fencepost'
import { withServer } from '../server.mjs'

const script = fileURLToPath(new URL('worker.mjs', import.meta.url))

process.exitCode = await withServer(async ({ url, pool }) => {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-example-'))
  const worker = spawn(process.execPath, [script, folder], {
    env: { ...process.env, DATABASE_URL: url },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const fp = new Fencepost({ pool, poll: 50 })
  const lines = createInterface({ input: worker.stdout })[Symbol.asyncIterator]()
  const told = async () => JSON.parse((await lines.next()).value)
  try {
    const store = new FileFencedStore(folder)
    await store.write('report', 1n, 'the first version')
    const slow = await told()
    console.log(
      `the worker (pid ${worker.pid}) has the lock, token ${slow.token}, and has read "${slow.read}"`,
    )
    worker.kill('SIGSTOP')
    console.log('it stands still; we wait for the lock')
    const lock = await fp.acquire('report')
    await store.enter('report', lock.token)
    await store.write('report', lock.token, 'ours')
    console.log(`we have it, token ${lock.token}, and have written "ours"`)
    worker.kill('SIGCONT')
    worker.stdin.end('write\n')
    const { refused } = await told()
    const content = String(await store.read('report'))
    console.log(`it goes on, and writes: ${refused ?? 'accepted'}; the file says "${content}"`)
    return refused === 'stale_token' && content === 'ours' ? 0 : 1
  } finally {
    await fp.close()
    worker.kill('SIGKILL')
    if (worker.exitCode === null && worker.signalCode === null) await once(worker, 'close')
    await rm(folder, { recursive: true, force: true })
  }
})
