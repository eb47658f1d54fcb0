export { type MigrateOptions, type MigrateResult, migrate } from './database/migrate.ts'
export {
  type MigrationStatus,
  type MigrationStatusOptions,
  migrationStatus,
} from './database/migration-status.ts'
export type { ConnectionOptions } from './database/migrations/connection.ts'
export { MigrationError } from './database/migrations/migration-error.ts'
export { type MigrationSqlOptions, migrationSql } from './database/migrations/script.ts'
export type { Queryable } from './database/ports.ts'
export * from './errors.ts'
export {
  type AcquireOptions,
  type CloseOptions,
  Fencepost,
  type FencepostOptions,
  type TryAcquireOptions,
} from './fencepost.ts'
export type { Guard } from './guard/guard.ts'
export type { TransactionClient, TransactionOptions } from './guard/transaction.ts'
export type { Lock, LockState, ReleaseOutcome } from './lock/lock.ts'
export type { Duration } from './options.ts'
