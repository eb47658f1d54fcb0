import { setTimeout as pause } from 'node:timers/promises'
import { monotonic } from './clock.mjs'

/**
 * Callers of one kind, in a closed loop: each asks, is granted, works, lets go and asks again.
 * @typedef {object} Kind
 * @property {string} name
 * @property {number} count
 * @property {readonly string[]} keys each time one of them, at random
 * @property {import('./peer.mjs').Terms} [terms] what they ask for; nothing: an exclusive lock
 */

/**
 * @typedef {object} Work
 * @property {readonly Kind[]} kinds
 * @property {number} section milliseconds; 0: none, they let go at once
 * @property {number} opens by `monotonic()`, as is `closes`; nobody asks again after that
 * @property {number} closes
 */

/**
 * What the callers of one kind had.
 * @typedef {object} Had
 * @property {string} name
 * @property {Float64Array} waits milliseconds, of all that was asked for inside the window, whenever it was granted
 * @property {Float64Array} from when each section that began inside the window did, by `monotonic()`
 * @property {Float64Array} to and when it ended: before it let go
 */

/**
 * @param {NonNullable<import('./peer.mjs').Peer['under']>} under
 * @param {Work} work
 * @returns {Promise<Had[]>}
 */
export async function workSections(under, { kinds, section, opens, closes }) {
  let failed = false
  const all = kinds.map(({ name, count, keys, terms = {} }) => {
    const had = {
      waits: /** @type {number[]} */ ([]),
      from: /** @type {number[]} */ ([]),
      to: /** @type {number[]} */ ([]),
    }
    const caller = async () => {
      for (let asked = monotonic(); asked < closes && !failed; asked = monotonic()) {
        const key = keys[Math.floor(Math.random() * keys.length)] ?? ''
        await under(key, terms, async () => {
          const granted = monotonic()
          if (section > 0) await pause(section)
          if (asked >= opens) had.waits.push(granted - asked)
          if (granted < opens || granted >= closes) return
          had.from.push(granted)
          had.to.push(monotonic())
        })
      }
    }
    const running = Array.from({ length: count }, () =>
      caller().catch(error => {
        failed = true
        throw error
      }),
    )
    return { name, had, running }
  })
  const done = await Promise.allSettled(all.flatMap(({ running }) => running))
  const failure = done.find(outcome => outcome.status === 'rejected')
  if (failure) throw failure.reason
  return all.map(({ name, had }) => ({
    name,
    waits: Float64Array.from(had.waits),
    from: Float64Array.from(had.from),
    to: Float64Array.from(had.to),
  }))
}

/**
 * The second opinion: by the clocks of the callers alone, how much there was at once. What ends at the moment at which
 * something else begins is not beside it.
 * @param {readonly { had: readonly Had[], weight: number }[]} weighed
 */
export function mostAtOnce(weighed) {
  const moments = weighed.flatMap(({ had, weight }) =>
    had.flatMap(({ from, to }) => [
      ...[...from].map(at => ({ at, change: weight })),
      ...[...to].map(at => ({ at, change: -weight })),
    ]),
  )
  moments.sort((one, other) => one.at - other.at || one.change - other.change)
  let now = 0
  let most = 0
  for (const { change } of moments) {
    now += change
    most = Math.max(most, now)
  }
  return most
}
