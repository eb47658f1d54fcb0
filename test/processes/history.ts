import type { Message } from '../support/child.ts'

/** That one process believed to hold a key, from when until when. */
export interface Belief {
  readonly key: string
  readonly token: bigint
  readonly from: number
  readonly until: number
}

/** What a process said of its sections. @param killed when it was killed: a section that it was in ended there */
export function readBeliefs(said: readonly Message[], killed?: number): Belief[] {
  const entered = new Map<string, Message>()
  const beliefs: Belief[] = []
  const add = (message: Message, until: number) =>
    beliefs.push({
      key: message.key as string,
      token: BigInt(message.token as string),
      from: message.at as number,
      until,
    })
  for (const message of said) {
    const token = message.token as string
    if (message.name === 'enter') entered.set(token, message)
    const entry = entered.get(token)
    if (message.name !== 'leave' || !entry) continue
    entered.delete(token)
    add(entry, message.at as number)
  }
  for (const entry of entered.values())
    add(entry, Math.max(killed ?? (entry.at as number), entry.at as number))
  return beliefs
}

/** Each pair of beliefs of one key of which the later grant began before the earlier one had ended, in words. */
export function overlaps(beliefs: readonly Belief[]): string[] {
  const byKey = new Map<string, Belief[]>()
  for (const belief of beliefs) byKey.set(belief.key, [...(byKey.get(belief.key) ?? []), belief])
  const found: string[] = []
  for (const [key, own] of byKey) {
    own.sort((a, b) => (a.token < b.token ? -1 : 1))
    for (const [i, later] of own.entries()) {
      const earlier = own[i - 1]
      if (earlier && later.token === earlier.token) found.push(`${key}: token ${later.token} twice`)
      if (earlier && later.from < earlier.until)
        found.push(`${key}: ${earlier.token} until ${earlier.until}, ${later.token} from ${later.from}`)
    }
  }
  return found
}
