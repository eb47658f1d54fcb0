// Compiled and never run: types.test.ts does that against the declarations as they are published.
import type { Generated, Kysely, Transaction } from 'kysely'
import type pg from 'pg'
import { expectTypeOf } from 'vitest'
import {
  AbortedError,
  type AcquireOptions,
  type CloseOptions,
  type Duration,
  type Election,
  Fencepost,
  FencepostError,
  type FencepostOptions,
  type ForcedRelease,
  type HealthReport,
  type Leader,
  type Lock,
  type LockState,
  LockTimeoutError,
  type LossReason,
  LostError,
  type MetricsSnapshot,
  NotHeldError,
  type Overview,
  type PermitOptions,
  QueueFullError,
  type ReleaseOutcome,
  type Schedule,
  type ScheduleOptions,
  type ScheduleOverview,
  type Semaphore,
  type SignalHandlers,
  type Term,
  type Tick,
  type TryAcquireOptions,
} from '../../src/index.ts'
import { guard, lockRow, transaction } from '../../src/kysely.ts'

declare const pool: pg.Pool
declare const client: pg.Client
declare const lock: Lock
declare const signal: AbortSignal

// What a client is made of.
const fp = new Fencepost({ pool })
new Fencepost({ pool: client })
new Fencepost({ pool: 'postgresql://localhost/app' })
new Fencepost({ connectionString: 'postgresql://localhost/app' })
new Fencepost({ pool: { query: async (_text: string, _values?: unknown[]) => ({ rows: [] }) } })
new Fencepost({
  pool,
  schema: 'locks',
  ttl: '15s',
  namespace: 'app',
  owner: 'worker 1',
  listen: { connectionString: 'postgresql://localhost/app' },
  poll: 500,
  maxPending: 100,
  maxPendingPerKey: 10,
  healthy: () => true,
  watchdog: true,
})
const undefinedOptions: FencepostOptions = { pool, ttl: undefined, listen: undefined, healthy: undefined }
new Fencepost(undefinedOptions)
// @ts-expect-error nothing to connect with is no database: but options are needed
new Fencepost()
// @ts-expect-error a number is no database
new Fencepost({ pool: 5 })
// @ts-expect-error an object without query or options is no database
new Fencepost({ pool: { connect: () => {} } })
// @ts-expect-error a ttl is milliseconds or text
new Fencepost({ pool, ttl: 5n })
// @ts-expect-error listening elsewhere needs a connection string
new Fencepost({ pool, listen: {} })
// @ts-expect-error health is a yes or a no, at once
new Fencepost({ pool, healthy: async () => true })
// @ts-expect-error unknown options are mistakes
new Fencepost({ pool, timeToLive: '15s' })

// Acquiring.
expectTypeOf(fp.acquire).parameters.toEqualTypeOf<
  [key: string | readonly string[], options?: AcquireOptions | undefined]
>()
expectTypeOf(fp.acquire('k')).toEqualTypeOf<Promise<Lock>>()
expectTypeOf(fp.tryAcquire('k')).toEqualTypeOf<Promise<Lock | null>>()
expectTypeOf(fp.close).parameters.toEqualTypeOf<[options?: CloseOptions | undefined]>()
expectTypeOf(fp.close()).toEqualTypeOf<Promise<void>>()
expectTypeOf(fp).toExtend<AsyncDisposable>()
expectTypeOf(fp.closeOnSignals).parameters.toEqualTypeOf<[options?: CloseOptions | undefined]>()
expectTypeOf(fp.closeOnSignals()).toEqualTypeOf<SignalHandlers>()
expectTypeOf(fp.closeOnSignals({ timeout: '20s' })()).toEqualTypeOf<void>()
expectTypeOf(fp.closeOnSignals()).toExtend<Disposable>()
// @ts-expect-error a watchdog is there or not
new Fencepost({ pool, watchdog: '1s' })
expectTypeOf<Duration>().toEqualTypeOf<number | string>()
void fp.acquire('k', { ttl: '30s', timeout: 5_000, signal, label: 'x', metadata: { any: ['thing', 1] } })
const someOptions: AcquireOptions = { timeout: undefined, signal: undefined, label: undefined }
void fp.acquire('k', someOptions)
// @ts-expect-error a key is text
void fp.acquire(5)
// @ts-expect-error a key is needed
void fp.acquire()
// @ts-expect-error a signal, not its controller
void fp.acquire('k', { signal: new AbortController() })
// @ts-expect-error a try does not wait
void fp.tryAcquire('k', { timeout: '5s' })
expectTypeOf<TryAcquireOptions>().not.toHaveProperty('timeout')

// Sections: what they answer is what withLock answers.
expectTypeOf(fp.withLock('k', async () => 5)).toEqualTypeOf<Promise<number>>()
expectTypeOf(fp.withLock('k', () => 'text')).toEqualTypeOf<Promise<string>>()
expectTypeOf(fp.withLock('k', { timeout: '5s' }, async each => each.token)).toEqualTypeOf<Promise<bigint>>()
expectTypeOf(fp.withLock('k', () => {})).toEqualTypeOf<Promise<void>>()
void fp.withLock('k', each => {
  expectTypeOf(each).toEqualTypeOf<Lock>()
})
// @ts-expect-error a section is needed
void fp.withLock('k')
// @ts-expect-error a section is needed, also with options
void fp.withLock('k', {})
// @ts-expect-error options come before the section
void fp.withLock('k', () => {}, {})

// Held together, and several keys.
void fp.acquire('k', { mode: 'shared', reentrant: true, lockDelay: '5s' })
// @ts-expect-error there are two modes
void fp.acquire('k', { mode: 'read' })
// @ts-expect-error permits are a semaphore's
void fp.acquire('k', { permits: 2 })
void fp.acquire(['a', 'b'] as const)
expectTypeOf(fp.tryAcquire(['a', 'b'])).toEqualTypeOf<Promise<Lock | null>>()
expectTypeOf(fp.withLock(['a', 'b'], each => each.tokens)).toEqualTypeOf<
  Promise<ReadonlyMap<string, bigint>>
>()
const semaphore = fp.semaphore('name', { permits: 5 })
expectTypeOf(semaphore).toEqualTypeOf<Semaphore<PermitOptions>>()
expectTypeOf(semaphore.acquire({ permits: 2, timeout: '5s', ttl: '15s', signal })).toEqualTypeOf<
  Promise<Lock>
>()
expectTypeOf(semaphore.tryAcquire({ permits: 2 })).toEqualTypeOf<Promise<Lock | null>>()
expectTypeOf(semaphore.withPermits(() => 5)).toEqualTypeOf<Promise<number>>()
expectTypeOf(semaphore.withPermits({ permits: 2 }, async each => each.permits)).toEqualTypeOf<
  Promise<number | undefined>
>()
expectTypeOf(semaphore.resize(3)).toEqualTypeOf<Promise<void>>()
// @ts-expect-error a try does not wait
void semaphore.tryAcquire({ timeout: '5s' })
// @ts-expect-error how many there are is to be said
fp.semaphore('name')
// @ts-expect-error a semaphore is one name
fp.semaphore(['a', 'b'], { permits: 2 })
// @ts-expect-error permits have no mode
void semaphore.acquire({ mode: 'shared' })
// @ts-expect-error nor are they entered again
void semaphore.acquire({ reentrant: true })
// @ts-expect-error nor do they rest
void semaphore.acquire({ lockDelay: '5s' })
expectTypeOf(lock.mode).toEqualTypeOf<'exclusive' | 'shared' | 'permits'>()
expectTypeOf(lock.permits).toEqualTypeOf<number | undefined>()
expectTypeOf(lock.level).toEqualTypeOf<bigint>()
expectTypeOf(lock.tokens).toEqualTypeOf<ReadonlyMap<string, bigint>>()
expectTypeOf(lock.downgrade()).toEqualTypeOf<Promise<void>>()

// Elections.
const election = fp.election('e', {
  value: [1],
  ttl: '30s',
  renewDeadline: '20s',
  takeover: 'ttl',
  onLost: 'exit',
})
expectTypeOf(election).toEqualTypeOf<Election>()
expectTypeOf(fp.election('e').isLeader).toEqualTypeOf<boolean>()
expectTypeOf(election.campaign({ signal, timeout: '5s' })).toEqualTypeOf<Promise<Term>>()
expectTypeOf(election.resign()).toEqualTypeOf<Promise<ReleaseOutcome>>()
expectTypeOf(election.leader()).toEqualTypeOf<Promise<Leader | null>>()
expectTypeOf(election.observe({ signal })).toExtend<AsyncIterable<Leader | null>>()
expectTypeOf(election.lead(() => {}, { signal, onError: console.error })).toEqualTypeOf<Promise<void>>()
void election.lead(async term => {
  expectTypeOf(term).toEqualTypeOf<Term>()
  expectTypeOf(term.token).toEqualTypeOf<bigint>()
  expectTypeOf(await term.transaction(async () => 5)).toEqualTypeOf<number>()
})
// @ts-expect-error a callback is needed
void election.lead()
fp.election('e', { takeover: 'fast', grace: '3s' })
// @ts-expect-error there is no other
fp.election('e', { takeover: 'slow' })
// @ts-expect-error it exits or does nothing
fp.election('e', { onLost: 'throw' })
// @ts-expect-error a name is text
fp.election(5)

// The handle.
expectTypeOf(lock.token).toEqualTypeOf<bigint>()
expectTypeOf(lock.key).toEqualTypeOf<string>()
expectTypeOf(lock.label).toEqualTypeOf<string | undefined>()
expectTypeOf(lock.metadata).toEqualTypeOf<unknown>()
expectTypeOf(lock.signal).toEqualTypeOf<AbortSignal>()
expectTypeOf(lock.remaining).toEqualTypeOf<number>()
expectTypeOf(lock.state).toEqualTypeOf<LockState>()
expectTypeOf<LockState>().toEqualTypeOf<'held' | 'degraded' | 'suspended' | 'released' | 'lost'>()
expectTypeOf(lock.lossReason).toEqualTypeOf<LossReason | undefined>()
expectTypeOf(lock.assertHeld()).toEqualTypeOf<void>()
expectTypeOf(lock.renew()).toEqualTypeOf<Promise<void>>()
expectTypeOf(lock.release()).toEqualTypeOf<Promise<ReleaseOutcome>>()
expectTypeOf<ReleaseOutcome>().toEqualTypeOf<
  'released' | 'already' | 'expired' | 'unreachable' | 'forced' | 'shutdown'
>()
expectTypeOf(lock).toExtend<AsyncDisposable>()
// @ts-expect-error what it says is not for others to set
lock.key = 'another'
// @ts-expect-error nor this
lock.state = 'held'
// @ts-expect-error tokens are bigints: no number holds them all
lock.token satisfies number

// With Kysely.
interface Tables {
  orders: { id: Generated<number>; item: string | null }
}
declare const db: Kysely<Tables>
declare const trx: Transaction<Tables>
expectTypeOf(lockRow(trx, 'orders', { id: 1 })).toEqualTypeOf<
  Promise<{ id: number; item: string | null } | undefined>
>()
void lockRow(trx, 'orders', { id: 1, item: null }, { strength: 'key share', ifLocked: 'skip' })
// @ts-expect-error no such table
void lockRow(trx, 'invoices', { id: 1 })
// @ts-expect-error no such column
void lockRow(trx, 'orders', { number: 1 })
// @ts-expect-error a column of another type
void lockRow(trx, 'orders', { id: '1' })
// @ts-expect-error a column that is never null
void lockRow(trx, 'orders', { id: null })
// @ts-expect-error no such strength
void lockRow(trx, 'orders', { id: 1 }, { strength: 'exclusive' })
// @ts-expect-error nor is there another way out
void lockRow(trx, 'orders', { id: 1 }, { ifLocked: 'throw' })
// @ts-expect-error a row lock ends with its transaction
void lockRow(db, 'orders', { id: 1 })
// @ts-expect-error what it answers has no other columns
void lockRow(trx, 'orders', { id: 1 }).then(row => row?.number)
// @ts-expect-error a guard ends with its transaction, too
void guard(lock, db)
expectTypeOf(
  transaction(lock, db, async each => (await each.selectFrom('orders').select('id').execute()).length),
).toEqualTypeOf<Promise<number>>()

// In sight.
expectTypeOf(fp.query()).toEqualTypeOf<Promise<Overview>>()
void fp.query({ key: 'k' }).then(({ held, pending }) => {
  for (const each of held) expectTypeOf(each.token).toEqualTypeOf<bigint>()
  for (const each of pending) expectTypeOf(each.place).toEqualTypeOf<number>()
  // @ts-expect-error what is seen cannot be released
  for (const each of held) each.release()
})
expectTypeOf(fp.forceRelease('k', { reason: 'stuck', token: 5n, now: true })).toEqualTypeOf<
  Promise<ForcedRelease>
>()
// @ts-expect-error why is kept
void fp.forceRelease('k')
// @ts-expect-error and is needed
void fp.forceRelease('k', { now: true })
expectTypeOf(fp.tokenBase()).toEqualTypeOf<Promise<bigint | null>>()
expectTypeOf(fp.raiseBase({ reason: 'restored' })).toEqualTypeOf<Promise<bigint>>()
expectTypeOf(fp.health({ timeout: '2s' })).toEqualTypeOf<Promise<HealthReport>>()
expectTypeOf(fp.metrics()).toEqualTypeOf<MetricsSnapshot>()

// The errors.
declare const error: unknown
if (error instanceof FencepostError) {
  expectTypeOf(error.code).toEqualTypeOf<string>()
  expectTypeOf(error).toExtend<Error>()
}
if (error instanceof LostError) {
  expectTypeOf(error.reason).toEqualTypeOf<LossReason>()
  expectTypeOf(error).toExtend<NotHeldError>()
}
if (error instanceof NotHeldError) expectTypeOf(error.key).toEqualTypeOf<string>()
if (error instanceof LockTimeoutError) expectTypeOf(error.timeout).toEqualTypeOf<number>()
if (error instanceof QueueFullError) expectTypeOf(error.limit).toEqualTypeOf<number>()
if (error instanceof AbortedError) expectTypeOf(error.cause).toEqualTypeOf<unknown>()
// @ts-expect-error a kind of error, not one that is thrown itself
new FencepostError('no')

// Schedules, and what is done once.
const scheduleOptions: ScheduleOptions = {
  timezone: 'Europe/Berlin',
  missed: 'all',
  missedLimit: 3,
  startWithin: '1m',
  overlap: 'queue',
  timeout: 1_000,
  jitter: '5s',
  retry: { attempts: 3, backoff: '1m' },
  version: 2,
  retention: '30d',
  ttl: undefined,
  onError: (_error, { name, slot, attempt }) => expectTypeOf([name, slot, attempt]).not.toBeAny(),
}
expectTypeOf(fp.schedule('s', '* * * * *', () => {}, scheduleOptions)).resolves.toEqualTypeOf<Schedule>()
void fp.schedule('s', '* * * * *', async ({ slot, attempt, signal, token, transaction }: Tick) => {
  expectTypeOf(slot).toEqualTypeOf<Date>()
  expectTypeOf(attempt).toEqualTypeOf<number>()
  expectTypeOf(signal).toEqualTypeOf<AbortSignal>()
  expectTypeOf(token).toEqualTypeOf<bigint>()
  expectTypeOf(await transaction(() => 7)).toEqualTypeOf<number>()
})
expectTypeOf(fp.schedules()).resolves.toEqualTypeOf<readonly ScheduleOverview[]>()
// @ts-expect-error there is no such policy
void fp.schedule('s', '* * * * *', () => {}, { missed: 'some' })
expectTypeOf(fp.once('k', () => ({ a: 1 }), { within: '1d' })).resolves.toEqualTypeOf<{ a: number }>()
expectTypeOf(
  fp.once('k', async ({ token }) => String(token), { within: 1_000 }),
).resolves.toEqualTypeOf<string>()
// @ts-expect-error for how long is to be said
void fp.once('k', () => 1, {})
