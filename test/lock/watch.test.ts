import { expect, test } from 'vitest'
import type { Asker } from '../../src/lock/asker.ts'
import { Watch } from '../../src/lock/watch.ts'
import type { Session } from '../../src/session/session.ts'

// When to look again, without a database: an idle client that once waited must not look for ever.

function cast(isWaiting: boolean) {
  const session = { isOver: false, lookAt: Number.POSITIVE_INFINITY, pollDelay: 0 } as Session
  const asker = { look: () => {} } as unknown as Asker
  const watch = new Watch(
    1_000,
    () => true,
    () => asker,
    () => [session],
    () => isWaiting,
  )
  return { session, watch }
}

test('who joins the line is looked after within the poll interval', () => {
  const { session, watch } = cast(true)
  watch.queued(session, null)
  expect(session.lookAt - performance.now()).toBeLessThanOrEqual(1_000)
  watch.stop()
})

test('after a look that leaves somebody in line another is due', () => {
  const { session, watch } = cast(true)
  watch.looked(session, [])
  expect(session.lookAt - performance.now()).toBeLessThanOrEqual(1_000)
  watch.stop()
})

test('after a look that leaves nobody in line none is due', () => {
  const { session, watch } = cast(false)
  watch.queued(session, null)
  watch.looked(session, [])
  expect(session.lookAt).toBe(Number.POSITIVE_INFINITY)
  watch.stop()
})
