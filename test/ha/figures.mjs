// How long service was away, by what the clients recorded.

/** The longest stretch without such an event, of any process that has some, from `since` on. In seconds. */
function longestWithout(events, since, test) {
  /** @type {Map<string, number[]>} */
  const times = new Map()
  for (const event of events) {
    if (!test(event)) continue
    const list = times.get(event.process) ?? []
    times.set(event.process, list)
    list.push(event.t)
  }
  const gaps = [...times.values()].flatMap(list => {
    const before = list.findLast(t => t < since)
    const later = [...(before === undefined ? [] : [before]), ...list.filter(t => t >= since)]
    return later.slice(1).map((t, i) => t - (later[i] ?? t))
  })
  return Math.max(0, ...gaps) / 1_000
}

/** Until somebody new was granted a key, in each process; the worst of them. */
export const grantsAway = (events, since) =>
  longestWithout(
    events,
    since,
    ({ op, phase, key }) => op === 'acquire' && phase === 'ok' && !/^long:/.test(key),
  )

/** Until what was held was renewed again. */
export const renewalsAway = (events, since) =>
  longestWithout(events, since, ({ op, phase }) => op === 'renew' && phase === 'ok')

/** How long a client said that its database was not reached. */
export const unreached = (events, since) =>
  longestWithout(events, since, ({ op, reached }) => op === 'health' && reached === true)

/** Of a key's holder: whether it was ever lost. */
export const lossesOf = (events, pattern) =>
  new Map(
    events
      .filter(({ op, key, state }) => op === 'state' && pattern.test(key) && state === 'lost')
      .map(({ key, id, reason }) => [`${key} ${id}`, reason]),
  )

/** `worst 21.3 s, median 20.9 s`, or the one there is. */
export function spread(values) {
  const sorted = [...values].sort((a, b) => a - b)
  const of = value => `${Number(value).toFixed(1)} s`
  if (sorted.length === 1) return of(sorted[0])
  return `worst ${of(sorted.at(-1))}, median ${of(sorted[Math.floor(sorted.length / 2)])} of ${sorted.length}`
}
