import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe } from 'vitest'
import { Setting } from '../guard/support/setting.ts'
import { hasRecipes } from './apart.ts'
import { guarding, type Library } from './guarding.ts'
import { recipe } from './recipe.ts'

interface Transaction {
  $queryRawUnsafe(text: string): Promise<unknown[]>
  readonly note: { create(row: { data: { text: string } }): Promise<unknown> }
}
interface Prisma extends Transaction {
  $transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
  $disconnect(): Promise<void>
}

const folder = fileURLToPath(new URL('apart/', import.meta.url))
const fromPrisma = recipe<Transaction>('fromPrisma')

describe.runIf(hasRecipes)('Prisma', () => {
  let setting: Setting
  let prisma: Prisma
  let library: Library
  beforeAll(async () => {
    // Its generator wants a program for migrations, which it does not run, from a server of its own.
    const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath }
    const generate = ['node_modules/prisma/build/index.js', 'generate', '--schema', 'schema.prisma']
    execFileSync(process.execPath, generate, { cwd: folder, env, stdio: 'pipe' })
    const { PrismaClient } = await import(`${folder}generated/client.ts`)
    const { PrismaPg } = await import(`${folder}node_modules/@prisma/adapter-pg/dist/index.mjs`)
    setting = await Setting.create()
    prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: setting.db.url, max: 3 }) })
    library = {
      transaction: work =>
        prisma.$transaction(tx => work(fromPrisma(tx), text => tx.note.create({ data: { text } }))),
      outside: () => fromPrisma(prisma),
    }
  })
  afterEach(() => setting.clear())
  afterAll(async () => {
    await prisma.$disconnect()
    await setting.db.drop()
  })

  guarding(
    () => setting,
    () => library,
  )
})
