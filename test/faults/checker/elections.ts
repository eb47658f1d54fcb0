import { byKey, type Entry, type Event, grain, type Rule, type Run, type Violation } from './history.ts'

/** One term as its candidate had it. */
interface Term {
  readonly key: string
  readonly token: string
  readonly id: string
  readonly process: string
  readonly from: number
  /** The last question that was answered "leader"; minus infinity: none was. */
  until: number
  /** When the callback ended, if it did, and whether the term was lost by then. */
  ended: number | undefined
  wasLost: boolean
}

function termsOf(run: Run): Term[] {
  const terms = new Map<string, Term>()
  for (const { op, id, key, token, process, t, state, asked, reason } of run.events) {
    if (key === undefined || token === undefined) continue
    const name = `${id} ${token}`
    const term = terms.get(name)
    if (op === 'elected') {
      terms.set(name, {
        key,
        token,
        id,
        process,
        from: t,
        until: Number.NEGATIVE_INFINITY,
        ended: undefined,
        wasLost: false,
      })
    } else if (term && op === 'leads' && state === 'leader') {
      term.until = Math.max(term.until, asked ?? t)
    } else if (term && op === 'ended') {
      term.ended = t
      term.wasLost = reason !== undefined
    }
  }
  return [...terms.values()].sort((a, b) => a.from - b.from)
}

/** The grants of each key by the record, in order, lost ones too; those that were numbered again under their last number. */
function grantsOf(run: Run): Map<string, Entry[]> {
  const found = new Map<string, Entry[]>()
  const recorded = [...run.lost, ...run.journal].sort((a, b) => a.at - b.at)
  for (const [key, entries] of byKey(recorded)) {
    const stale = new Set(
      entries.flatMap(({ event, detail }) => (event === 'renumbered' ? [detail.from] : [])),
    )
    const grants = entries.filter(
      ({ event, token }) =>
        (event === 'granted' || event === 'renumbered') && token !== null && !stale.has(token),
    )
    found.set(key, grants)
  }
  return found
}

/** Tokens that are in the record otherwise: of a run, whose turn its process knows; and those that a promotion has lost. */
function apart(run: Run): { inRun: Set<string>; lost: Set<string> } {
  const tokens = (entries: readonly Entry[], named: string) =>
    new Set(entries.filter(({ event }) => event === named).map(({ key, token }) => `${key} ${token}`))
  return { inRun: tokens([...run.lost, ...run.journal], 'run'), lost: tokens(run.lost, 'granted') }
}

/** The first grant of a key after the one of a token. */
const nextOf = (grants: readonly Entry[] | undefined, token: string): Entry | undefined =>
  grants?.find(entry => BigInt(entry.token as string) > BigInt(token))

/**
 * At most one leads: no two candidates say so at one moment, and none after the record has named another. Terms rise, in real
 * time, and are those of the record.
 */
export const oneLeader: Rule = run => {
  const found: Violation[] = []
  const grants = grantsOf(run)
  const { inRun, lost } = apart(run)
  const last = new Map<string, Term>()
  for (const term of termsOf(run)) {
    const { key, token, process, from, until } = term
    const say = (rule: string, story: string) => found.push({ rule, key, at: from, story })
    const before = last.get(key)
    if (before && before.until > from)
      say(
        'one-leader',
        `${before.process} said that it leads (token ${before.token}) ${(before.until - from).toFixed(1)} ms after ${process} was elected (token ${token})`,
      )
    // One that stood still between its election and the line that tells of it says no more that it leads.
    if (before && BigInt(before.token) >= BigInt(token) && until > from)
      say('terms', `${process} was elected under token ${token}, after token ${before.token}`)
    if (!before || until > before.until) last.set(key, term)
    const own = grants.get(key)
    if (!own?.some(entry => entry.token === token) && !inRun.has(`${key} ${token}`))
      say('terms', `${process} was elected under token ${token}, which the database has not granted`)
    // Who came before it, and gave up in a commit that is lost, may be granted it once more: and gives it back.
    const next = lost.has(`${key} ${token}`) ? undefined : nextOf(own, token)
    if (next && next.at + grain < until)
      say(
        'one-leader',
        `${process} said that it leads (token ${token}) ${(until - next.at - grain).toFixed(1)} ms after token ${next.token} was granted`,
      )
  }
  return found
}

/** A term that was not lost is another's only when the callback has ended; and of one candidate they alternate. */
export const drainedFirst: Rule = run => {
  const found: Violation[] = []
  const grants = grantsOf(run)
  const killed = new Set(
    run.events.filter(({ op, phase }) => op === 'process' && phase === 'fail').map(e => e.process),
  )
  const { lost } = apart(run)
  for (const { key, token, process, ended, wasLost, from } of termsOf(run)) {
    const next = nextOf(grants.get(key), token)
    if (!next || wasLost || killed.has(process) || lost.has(`${key} ${token}`)) continue
    if (ended !== undefined && ended <= next.at + grain) continue
    const late =
      ended === undefined ? 'did not end' : `ended ${(ended - next.at - grain).toFixed(1)} ms later`
    const story = `token ${next.token} was granted while the callback of ${process} under token ${token} still ran, which was not lost: it ${late}`
    found.push({ rule: 'drained', key, at: from, story })
  }
  const running = new Map<string, string>()
  for (const { op, id, key, token, t } of run.events) {
    const inside = running.get(id)
    if (op === 'elected' && inside !== undefined)
      found.push({
        rule: 'drained',
        key,
        at: t,
        story: `${id} was elected while its callback under ${inside} still ran`,
      })
    if (op === 'elected') running.set(id, String(token))
    if (op === 'ended') running.delete(id)
  }
  return found
}

/** Milliseconds: the clients' poll interval. */
const poll = 1_000
/** Milliseconds within which the database answered, for the promise to hold, with room for a busy machine. */
const prompt = poll / 4

/**
 * What observers show: tokens rise strictly, none that the database has not granted; and no term is missed that lasted longer than
 * the poll interval, where the observer could reach the database: its client's own looks were answered promptly all the while.
 */
export const termsObserved: Rule = run => {
  const found: Violation[] = []
  const terms = lastingTerms(run)
  const grants = grantsOf(run)
  for (const [id, events] of observersOf(run)) {
    const key = events.find(event => event.key !== undefined)?.key as string
    const say = (at: number, story: string) =>
      found.push({ rule: 'observed', key, at, story: `${id} ${story}` })
    const known = new Set(grants.get(key)?.map(({ token }) => token))
    const shown = new Set<string>()
    let highest = 0n
    for (const { op, phase, token, t } of events) {
      // Another observer.
      if (op === 'observe' && phase === 'invoke') highest = 0n
      if (op !== 'shown' || token === undefined) continue
      if (BigInt(token) <= highest) say(t, `was shown token ${token} after ${highest}`)
      if (!known.has(token)) say(t, `was shown token ${token}, which the database has not granted`)
      highest = BigInt(token)
      shown.add(token)
    }
    const looks = events
      .filter(({ op }) => op === 'look')
      .map(({ asked, t }) => ({ from: asked as number, until: t }))
    for (const { token, from, until } of terms.get(key) ?? []) {
      if (!shown.has(token) && isPrompt(looks, from, until))
        say(from, `was not shown token ${token}, which lasted ${(until - from).toFixed(0)} ms`)
    }
  }
  return found
}

function observersOf(run: Run): Map<string, Event[]> {
  const observers = new Map<string, Event[]>()
  for (const event of run.events) {
    if (event.op !== 'observe' && event.op !== 'shown' && event.op !== 'look') continue
    observers.set(event.id, [...(observers.get(event.id) ?? []), event])
  }
  return observers
}

/** Whether looks were answered one after another all through a time, and a while before and after. */
function isPrompt(looks: readonly { from: number; until: number }[], from: number, until: number): boolean {
  let last = from - poll
  for (const look of looks) {
    if (look.until < last) continue
    if (look.from - last > prompt || look.until - look.from > prompt) return false
    last = look.until
    if (last > until + poll) return true
  }
  return false
}

/**
 * Terms that lasted longer than the poll interval by the record, until they were given up or another's. Not those that ended with
 * their session: it may have been over before it was buried.
 */
function lastingTerms(run: Run): Map<string, { token: string; from: number; until: number }[]> {
  const died = new Map(
    run.journal.flatMap(({ event, session, at }) =>
      event === 'died' && session ? [[session, at] as const] : [],
    ),
  )
  const found = new Map<string, { token: string; from: number; until: number }[]>()
  for (const [key, entries] of byKey(run.journal)) {
    if (!key.startsWith('election:')) continue
    const list: { token: string; from: number; until: number }[] = []
    found.set(key, list)
    let current: Entry | undefined
    for (const entry of entries) {
      const { event, at } = entry
      if (event === 'ticket' || event === 'unticket' || event === 'write') continue
      const isOver = (died.get(String(current?.session)) ?? Number.POSITIVE_INFINITY) <= at
      if (current?.token && at - current.at > poll + 2 * grain && !isOver)
        list.push({ token: current.token, from: current.at + grain, until: at })
      current = event === 'granted' || event === 'renumbered' ? entry : undefined
    }
  }
  return found
}
