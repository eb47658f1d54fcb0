import type { LossReason } from './errors.ts'

/** Ticks a millisecond: the histograms' resolution is 125 µs. */
const perMillisecond = 8

/**
 * The monotonic clock in whole ticks, modulo 2^32: a small integer, which an object keeps without a box of its own. Two
 * of them give a span as long as that is under six days.
 */
export const ticks = (): number => ticksOf(performance.now())
export const ticksOf = (milliseconds: number): number => (milliseconds * perMillisecond) | 0

export interface HistogramSnapshot {
  readonly count: number
  readonly sum: number
  /** Each bound is twice the one before. Not cumulative; up to the last one that is not empty. */
  readonly buckets: readonly { readonly below: number; readonly count: number }[]
}

/** Counts whole numbers by their powers of two. To record one allocates nothing. */
export class Histogram {
  readonly #counts = new Float64Array(33)
  readonly #sum = new Float64Array(1)
  readonly #scale: number

  /** @param scale how many recorded units make one of the snapshot's */
  constructor(scale: number) {
    this.#scale = scale
  }

  record(value: number): void {
    const bucket = 32 - Math.clz32(value)
    this.#counts[bucket] = (this.#counts[bucket] as number) + 1
    this.#sum[0] = (this.#sum[0] as number) + value
  }

  snapshot(): HistogramSnapshot {
    const last = this.#counts.findLastIndex(count => count > 0)
    const used = [...this.#counts.subarray(0, last + 1)]
    return {
      count: used.reduce((total, count) => total + count, 0),
      sum: (this.#sum[0] as number) / this.#scale,
      buckets: used.map((count, bucket) => ({ below: 2 ** bucket / this.#scale, count })),
    }
  }
}

export interface MetricsSnapshot {
  /** The client's, if it has one. */
  readonly namespace: string | null
  /** By outcome: `granted`, `busy` (a try that found the key taken), or the `code` of the error. */
  readonly acquires: Readonly<Record<string, number>>
  /** From the call of `acquire` to the grant, in milliseconds. */
  readonly waits: HistogramSnapshot
  /** From the grant to the release or loss, in milliseconds. */
  readonly holds: HistogramSnapshot
  readonly losses: Readonly<Record<LossReason, number>>
  /** Calls to the database that carry many requests, by how many they carried. */
  readonly batches: {
    readonly acquire: HistogramSnapshot
    readonly tick: HistogramSnapshot
    readonly release: HistogramSnapshot
    readonly cancel: HistogramSnapshot
  }
  readonly notifications: { readonly sent: number; readonly received: number }
  /** Grants that were passed on inside this process, without a call. */
  readonly passed: number
  /** Looks that a timer began, not a notification. */
  readonly polls: number
  /** Right now: locks held, and acquires that are not decided. */
  readonly held: number
  readonly pending: number
}

/** What a client counts. Everything here is on the way of each lock: nothing allocates, nothing calls out. */
export class Metrics {
  readonly waits: Histogram = new Histogram(perMillisecond)
  readonly holds: Histogram = new Histogram(perMillisecond)
  readonly batches: Readonly<Record<keyof MetricsSnapshot['batches'], Histogram>> = {
    acquire: new Histogram(1),
    tick: new Histogram(1),
    release: new Histogram(1),
    cancel: new Histogram(1),
  }
  readonly losses: Record<LossReason, number> = { expired: 0, unreachable: 0, forced: 0, shutdown: 0 }
  /** When the answers came that are being digested, in {@link ticks}: one look at the clock for a batch. */
  answeredAt = 0
  sent = 0
  passed = 0
  #granted = 0
  readonly #others = new Map<string, number>()

  /** @param since when it was asked for, in {@link ticks} */
  granted(since: number): void {
    this.#granted += 1
    this.waits.record((this.answeredAt - since) >>> 0)
  }

  /** `busy`, or the code of an error. */
  notGranted(outcome: string): void {
    this.#others.set(outcome, (this.#others.get(outcome) ?? 0) + 1)
  }

  /** @param since when it was granted, and @param until when it ended, in {@link ticks} */
  held(since: number, until: number): void {
    this.holds.record((until - since) >>> 0)
  }

  lost(reason: LossReason, since: number): void {
    this.losses[reason] += 1
    this.held(since, ticks())
  }

  snapshot(beside: {
    readonly namespace: string | undefined
    readonly received: number
    readonly polls: number
    readonly held: number
    readonly pending: number
  }): MetricsSnapshot {
    const { acquire, tick, release, cancel } = this.batches
    const { namespace, received, polls, held, pending } = beside
    return {
      namespace: namespace ?? null,
      acquires: { granted: this.#granted, ...Object.fromEntries(this.#others) },
      waits: this.waits.snapshot(),
      holds: this.holds.snapshot(),
      losses: { ...this.losses },
      batches: {
        acquire: acquire.snapshot(),
        tick: tick.snapshot(),
        release: release.snapshot(),
        cancel: cancel.snapshot(),
      },
      notifications: { sent: this.sent, received },
      passed: this.passed,
      polls,
      held,
      pending,
    }
  }
}

/** Of whatever an acquire failed with. */
export const outcomeOf = (error: unknown): string => {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : 'failed'
}
