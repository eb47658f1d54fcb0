import { grain, type Rule, type Violation } from './history.ts'

/** Each life of the server raises the token base. */
export const baseRises: Rule = run =>
  run.journal
    .filter(
      ({ event, detail }) =>
        event === 'incarnation' && BigInt(String(detail.base)) <= BigInt(String(detail.before)),
    )
    .map(({ at, detail }) => ({
      rule: 'base',
      at,
      story: `a new incarnation kept the token base ${detail.before} (now ${detail.base})`,
    }))

/** After a crash, a restart or a promotion nothing is granted before the new incarnation is on record. */
export const incarnationSeen: Rule = run => {
  const found: Violation[] = []
  const began = new Map<string, number>()
  for (const { op, phase, id, t, fault, life } of run.events) {
    if (op !== 'fault' || !life) continue
    if (phase === 'invoke') began.set(id, t)
    if (phase !== 'ok') continue
    const from = began.get(id) ?? t
    const grant = run.journal.find(({ event, at }) => (event === 'granted' || event === 'joined') && at > t)
    if (!grant) continue
    const seen = run.journal.some(
      ({ event, at, seq }) => event === 'incarnation' && at >= from - grain && seq < grant.seq,
    )
    if (seen) continue
    const story = `after ${fault} the server granted token ${grant.token} without having noticed its new life`
    found.push({ rule: 'incarnation', key: grant.key ?? undefined, at: grant.at, story })
  }
  return found
}

/** The grace: a session that a new incarnation finds lives for its whole ttl from then on. */
export const graceKept: Rule = run => {
  const found: Violation[] = []
  const opened = new Map<string, number>()
  let born: { seq: number; at: number } | undefined
  for (const { event, session, seq, at, detail, label } of run.journal) {
    if (event === 'incarnation') born = { seq, at }
    if (session === null) continue
    if (event === 'opened') opened.set(session, seq)
    if (event !== 'died' || detail.expired !== true || !born || (opened.get(session) ?? 0) > born.seq)
      continue
    const lived = at + grain - born.at
    if (lived >= Number(detail.ttl)) continue
    const story = `the session of ${label} was buried ${lived.toFixed(0)} ms after a new incarnation, ${detail.ttl} ms being its ttl`
    found.push({ rule: 'grace', at, story })
  }
  return found
}
