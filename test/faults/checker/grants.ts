import { byKey, type Entry, grain, type Rule, type Run, type Violation } from './history.ts'

/** P6: a grant ends because its holder gave it up, or because its session is stored dead; for no other reason. */
export const endedRightly: Rule = run => {
  const found: Violation[] = []
  const released = releases(run)
  const told = new Map<string, number>()
  for (const { op, phase, id, token, t } of run.events) {
    if (op === 'acquire' && phase === 'ok') told.set(`${id} ${token}`, t)
  }
  const dead = new Map<string, number>()
  for (const { event, session, seq } of run.journal) if (event === 'died' && session) dead.set(session, seq)
  for (const [key, entries] of byKey(run.journal)) {
    // Of a run, all of it.
    let holders: Entry[] = []
    for (const entry of entries) {
      const ends = entry.event === 'freed' || entry.event === 'idle' || entry.event === 'granted'
      for (const holder of ends ? holders : []) {
        if (!holder.token || !holder.session || holder.label === null) continue
        if ((told.get(`${holder.label} ${holder.token}`) ?? Number.POSITIVE_INFINITY) > entry.at + grain)
          continue
        const asked = released.get(`${key} ${holder.token}`)
        const died = dead.get(holder.session)
        const rightly =
          (asked !== undefined && asked <= entry.at + grain) || (died !== undefined && died < entry.seq)
        if (!rightly) {
          const story = `token ${holder.token} of ${holder.label} ended (${entry.event}, journal ${entry.seq}) though its holder had not given it up and its session was not dead`
          found.push({ rule: 'only-mine', key, at: entry.at, story })
        }
      }
      if (entry.event === 'granted' || entry.event === 'renumbered') holders = [entry]
      else if (entry.event === 'run') holders.push(entry)
      else if (ends || entry.event === 'mended') holders = []
    }
  }
  return found
}

function releases(run: Run): Map<string, number> {
  const asked = new Map<string, number>()
  for (const { op, phase, key, token, t } of run.events) {
    if (op === 'release' && phase === 'invoke') asked.set(`${key} ${token}`, t)
  }
  return asked
}

/** Death is stored, and final: no renewal brings a session back. */
export const deadStaysDead: Rule = run =>
  run.journal
    .filter(({ event }) => event === 'revived')
    .map(({ session, label, at }) => ({
      rule: 'dead-stays-dead',
      at,
      story: `session ${session} of ${label} was renewed after its death`,
    }))
