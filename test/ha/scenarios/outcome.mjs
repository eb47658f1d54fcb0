// What several scenarios want of a record, and the figures of a failover.
import { grantsAway, lossesOf, renewalsAway, unreached } from '../figures.mjs'

/** Who held for longer than it took keeps the lock, and who stood in line the place: the ticket of before, and a grant by it. */
export function expectKept(stage, { events, journal }, began) {
  const lost = lossesOf(events, /^long:/)
  stage.expect(lost.size === 0, `locks of a long ttl were lost: ${[...lost].join('; ')}`)
  const tickets = journal.filter(({ event, key }) => event === 'ticket' && /^long:/.test(key ?? ''))
  const drawn = tickets.filter(({ at }) => at < began)
  stage.expect(
    drawn.length === 3 && tickets.length === 3,
    `tickets were drawn anew: ${drawn.length} of ${tickets.length} before`,
  )
  const granted = events.filter(
    ({ op, phase, key }) => op === 'acquire' && phase === 'ok' && /^long:/.test(key),
  )
  stage.expect(granted.length === 6, `${granted.length} of 6 who asked for a long time were granted`)
}

/** Nobody lost anything, and nobody was refused. */
export function expectUndisturbed(stage, { events }) {
  const lost = lossesOf(events, /./)
  stage.expect(lost.size === 0, `locks were lost: ${[...lost].slice(0, 5).join('; ')}`)
  const refused = events.filter(({ op, phase }) => op === 'acquire' && phase === 'fail')
  stage.expect(
    refused.length === 0,
    `acquires failed: ${refused.slice(0, 5).map(({ id, code }) => `${id} ${code}`)}`,
  )
}

/** That it took effect: without this a scenario proves nothing. */
export function expectIncarnations(stage, { journal }, least) {
  const lives = journal.filter(({ event, detail }) => event === 'incarnation' && Number(detail.timeline) > 0)
  stage.expect(lives.length >= least, `${lives.length} promotions are on record, not ${least}`)
}

/** Every client said that it did not reach its database while that was away, and that it does now. */
export function expectTruthful(stage, { events }, began, until) {
  for (const name of ['w1', 'w2', 'w3']) {
    const said = events.filter(({ op, process }) => op === 'health' && process === name)
    const during = said.filter(({ asked }) => asked > began && asked < until)
    stage.expect(
      during.some(({ reached }) => !reached),
      `${name} was never told that its database was away`,
    )
    stage.expect(said.at(-1)?.reached === true, `${name} did not reach its database at the end`)
  }
}

/** Seconds, by what it says. @param {any[]} events @param {number} began @param {number} [elected] when Patroni's new primary took writes */
export function figuresOf(events, began, elected) {
  return {
    ...(elected !== undefined && { 'Patroni’s own time': (elected - began) / 1_000 }),
    'no new grant, the worst client': grantsAway(events, began),
    ...(events.some(({ op }) => op === 'renew') && {
      'no renewal, the worst client': renewalsAway(events, began),
    }),
    'not reached, by health()': unreached(events, began),
  }
}
