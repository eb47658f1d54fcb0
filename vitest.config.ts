import './scripts/embed-migrations.mjs'
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/support/global-setup.ts',
    pool: 'forks',
    // One server serves all files, and their deadlines are real ones.
    maxWorkers: Math.min(availableParallelism(), 4),
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
