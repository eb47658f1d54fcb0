import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { temporaryFolder } from './folders.mjs'
import { median } from './percentiles.mjs'
import { Refusal } from './refusal.mjs'

/**
 * The machine and the durability the figures were taken under: the `env` of the JSON line.
 * @param {import('./postgres.mjs').PostgresServer} postgres
 */
export async function describeEnvironment(postgres) {
  return {
    cores: availableParallelism(),
    node: process.versions.node,
    pg: postgres.version,
    fsync: postgres.durability.fsync,
    synchronous_commit: postgres.durability.synchronous_commit,
    fsyncMicros: await measureFsync(),
  }
}

/**
 * Refuses unless a commit of this server survives a power cut.
 * @param {import('./postgres.mjs').PostgresServer} postgres
 */
export function assertDurable(postgres) {
  for (const [setting, value] of Object.entries(postgres.durability)) {
    if (value !== 'on')
      throw new Refusal(`the server runs with ${setting} = ${value}: its figures would mean nothing`)
  }
}

/**
 * What one durable commit pays the disk, in microseconds: the median of overwriting one 8 kB page and fdatasync, as
 * PostgreSQL does with its log (its default `wal_sync_method` on Linux), on the file system of the servers.
 */
async function measureFsync() {
  const page = Buffer.alloc(8192, 1)
  const folder = await temporaryFolder('fsync')
  const file = openSync(join(folder, 'page'), 'w')
  const micros = []
  try {
    for (let n = 0; n < 300; n++) {
      const start = performance.now()
      writeSync(file, page, 0, page.length, 0)
      fdatasyncSync(file)
      micros.push((performance.now() - start) * 1000)
    }
  } finally {
    closeSync(file)
    rmSync(folder, { recursive: true })
  }
  return Math.round(median(micros))
}
