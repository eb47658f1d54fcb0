import { byKey, type Entry, grain, type Rule, type Run, type Violation } from './history.ts'
import { type KeyState, replay } from './replay.ts'

/** P6: a grant ends because its holder gave it up, or because its session is stored dead; for no other reason. */
export const endedRightly: Rule = run => {
  const found: Violation[] = []
  const released = releases(run)
  const told = new Map<string, number>()
  for (const { op, phase, id, key, token, t } of run.events) {
    if (op === 'acquire' && phase === 'ok') told.set(`${key} ${id} ${token}`, t)
  }
  const dead = new Map<string, number>()
  for (const { event, session, seq } of run.journal) if (event === 'died' && session) dead.set(session, seq)
  for (const [key, entries] of byKey(run.journal)) {
    for (const { entry, state } of replay(entries)) {
      for (const holder of endedBy(entry, state)) {
        if (!holder.token || !holder.session || holder.label === null) continue
        if (
          (told.get(`${key} ${holder.label} ${holder.token}`) ?? Number.POSITIVE_INFINITY) >
          entry.at + grain
        )
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
    }
  }
  return found
}

/** Of a run, all of it; but not what has become a shared lock under its token. */
function endedBy({ event, token }: Entry, { grant, holders }: KeyState): readonly Entry[] {
  if (event === 'freed' || event === 'idle' || event === 'granted')
    return grant.filter(one => holders.get(String(one.token))?.session !== one.session)
  const left = event === 'left' && holders.get(String(token))
  return left ? [left] : []
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
