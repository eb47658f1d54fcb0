import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BuildOptions, build } from 'esbuild'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { migrationStatus } from '../../src/database/migration-status.ts'
import { latestVersion } from '../../src/database/migrations/catalog.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

let db: TestDatabase
let elsewhere: string
beforeEach(async () => {
  db = await createDatabase({ migrate: false })
  elsewhere = mkdtempSync(join(tmpdir(), 'fencepost-bundle-'))
})
afterEach(async () => {
  rmSync(elsewhere, { recursive: true, force: true })
  await db.drop()
})

const root = join(import.meta.dirname, '../..')
const app = `
  import { migrate } from ${JSON.stringify(join(root, 'dist/index.js'))}
  migrate({ connection: process.argv[2], schema: process.argv[3] }).then(({ version }) => console.log(version))`

// pg is CommonJS and asks for Node's modules by require, which an ESM bundle lacks unless it is given one.
const require = `import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);`

const kinds: Record<string, BuildOptions> = {
  'all of it, as ESM': { format: 'esm', banner: { js: require } },
  'all of it, as CommonJS': { format: 'cjs' },
  'all but pg, as ESM': { format: 'esm', external: ['pg'] },
  'all but pg and node-pg-migrate, as ESM': { format: 'esm', external: ['pg', 'node-pg-migrate'] },
  'all of it, minified': { format: 'cjs', minify: true },
}

test.each(Object.entries(kinds))('a bundled app migrates from another folder: %s', async (_, options) => {
  const entry = join(elsewhere, 'app.mjs')
  const outfile = join(elsewhere, options.format === 'esm' ? 'bundle.mjs' : 'bundle.cjs')
  writeFileSync(entry, app)
  await build({
    entryPoints: [entry],
    outfile,
    bundle: true,
    platform: 'node',
    logLevel: 'error',
    ...options,
  })
  rmSync(entry)
  for (const name of options.external ?? []) link(name)

  const child = spawnSync(process.execPath, [outfile, db.url, db.schema], {
    cwd: elsewhere,
    encoding: 'utf8',
  })
  expect(child).toMatchObject({ status: 0, stderr: '', stdout: `${latestVersion}\n` })
  expect(await migrationStatus({ connection: db.url, schema: db.schema })).toMatchObject({
    drift: [],
    pending: [],
  })
})

function link(name: string): void {
  const modules = join(elsewhere, 'node_modules')
  mkdirSync(modules, { recursive: true })
  symlinkSync(join(root, 'node_modules', name), join(modules, name))
}
