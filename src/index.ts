export type { SignalHandlers } from './closing/signals.ts'
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
export type { Election } from './election/election.ts'
export type { Leader } from './election/leader.ts'
export type { LeaderCallback } from './election/leading.ts'
export type { CampaignOptions, ElectionOptions, LeadOptions, ObserveOptions } from './election/options.ts'
export type { Term } from './election/term.ts'
export * from './errors.ts'
export { Fencepost } from './fencepost.ts'
export {
  type AdvisoryKey,
  type AdvisoryLockOptions,
  advisoryKey,
  advisoryLock,
  withAdvisoryLock,
} from './guard/advisory.ts'
export type { FencedStore } from './guard/fenced-store.ts'
export { FileFencedStore } from './guard/file-fenced-store.ts'
export type { Guard } from './guard/guard.ts'
export type { TransactionClient, TransactionPool } from './guard/line.ts'
export type { TransactionOptions } from './guard/transaction.ts'
export type { Lock, LockMode, LockState, ReleaseOutcome } from './lock/lock.ts'
export type { Section } from './lock/section.ts'
export type { Semaphore, SemaphoreOptions } from './lock/semaphore.ts'
export type { HistogramSnapshot, MetricsSnapshot } from './metrics.ts'
export type { Duration } from './options.ts'
export type { RetryOptions, ScheduleOptions } from './schedule/definition.ts'
export type { OnceContext, OnceOptions, OnceWork } from './schedule/once.ts'
export type { Drift, ScheduleOverview, TickOverview, TickState } from './schedule/overview.ts'
export type { Schedule } from './schedule/schedule.ts'
export type { Tick, TickErrorListener, TickWork } from './schedule/tick.ts'
export type {
  AcquireOptions,
  CloseOptions,
  FencepostOptions,
  PermitOptions,
  TryAcquireOptions,
} from './settings.ts'
export type { RaiseBaseOptions } from './sight/base.ts'
export type { ForcedRelease, ForceReleaseOptions } from './sight/force-release.ts'
export type { HealthOptions, HealthReport } from './sight/health.ts'
export type { Blocker, Held, Overview, Party, Pending, QueryOptions } from './sight/query.ts'
