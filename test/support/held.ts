import { expect } from 'vitest'

/**
 * Held all the time by what a handle said. `degraded` is held, too: a renewal was late, which a busy machine alone can
 * bring about and no clock and no pool of the application's.
 */
export function expectHeld(states: Iterable<string>): void {
  const said = new Set(states)
  said.delete('degraded')
  expect([...said]).toEqual(['held'])
}
