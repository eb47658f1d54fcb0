import { describe, expect, test } from 'vitest'
import { blocks, read, root, section } from './documents.ts'
import { Project } from './project.ts'

const [usage = ''] = blocks(section(read('README.md'), 'Thirty lines'), 'ts')

/** What a project says that uses the types as the README does, and a little more. */
const program = `
import { Fencepost, FencepostError, type Lock, LockTimeoutError, LostError } from 'fencepost'
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'

const pool = new pg.Pool()
const fp = new Fencepost({ pool, ttl: '10s' })
const db = new Kysely<{ stock: { item: string; amount: number } }>({ dialect: new PostgresDialect({ pool }) })
export const amount: number = await fp.withLock('stock', { timeout: 5_000 }, async lock => {
  return await db.transaction().execute(async trx => {
    await sql\`select fencepost.fence('stock', \${lock.token})\`.execute(trx)
    const row = await trx.selectFrom('stock').select('amount').executeTakeFirstOrThrow()
    return row.amount
  })
})
export const maybe: Lock | null = await fp.tryAcquire('stock')
export function explain(error: unknown): string {
  if (error instanceof LockTimeoutError) return \`\${error.key}: \${error.timeout.toFixed()}\`
  if (error instanceof LostError) return error.reason satisfies 'expired' | 'unreachable' | 'forced' | 'shutdown'
  return error instanceof FencepostError ? error.code : ''
}
export async function readme(signal: AbortSignal): Promise<void> {
${usage}
}
`

const options = { strict: true, exactOptionalPropertyTypes: true, target: 'es2023', noEmit: true }

describe('a project in TypeScript, which checks our types too', () => {
  test.each([
    ['nodenext', {}],
    ['esnext', { moduleResolution: 'bundler' }],
  ])('compiles with module %s', async (module, resolution) => {
    using project = new Project(['pg', 'kysely', '@types/pg', '@types/node', 'undici-types'])
    project.write('app.ts', program)
    const lib = ['es2023', 'esnext.disposable']
    const compilerOptions = { ...options, module, ...resolution, lib, types: ['node'], skipLibCheck: false }
    project.write('tsconfig.json', JSON.stringify({ compilerOptions, files: ['app.ts'] }))
    const { code, said } = await project.run(process.execPath, [
      `${root}node_modules/typescript/bin/tsc`,
      '-p',
      '.',
    ])
    expect({ code, said }).toEqual({ code: 0, said: '' })
  })
})
