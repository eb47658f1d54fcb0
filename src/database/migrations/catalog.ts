import { BadOptionError } from '../../errors.ts'
import { embeddedMigrations } from './embedded.ts'

export type Direction = 'up' | 'down'

/** One numbered file of `migrations/`, cut into its two sections. */
export interface EmbeddedMigration {
  /** 1, 2, … without gaps: the `cluster.version` that it leaves behind. */
  readonly number: number
  /** The file's name without its extension. */
  readonly name: string
  readonly up: string
  readonly down: string
}

export const migrations: readonly EmbeddedMigration[] = embeddedMigrations

/** The schema version that this package brings. */
export const latestVersion: number = migrations.length

/** @throws BadOptionError */
export function checkDirection(direction: Direction = 'up'): Direction {
  if (direction === 'up' || direction === 'down') return direction
  throw new BadOptionError("direction: want 'up' or 'down'")
}

/** What lies between two versions, in the order in which it is applied, or reverted when `to` is the lower one. */
export function migrationsBetween(from: number, to: number): readonly EmbeddedMigration[] {
  const between = migrations.filter(
    ({ number }) => number > Math.min(from, to) && number <= Math.max(from, to),
  )
  return from <= to ? between : between.toReversed()
}
