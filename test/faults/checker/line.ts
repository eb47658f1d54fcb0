import { byKey, type Rule, type Violation } from './history.ts'

/** P3: who is granted has the lowest ticket, and nobody is granted past a line. */
export const inLine: Rule = run => {
  const found: Violation[] = []
  for (const [key, entries] of byKey(run.journal)) {
    const line = new Map<string, number>()
    const left = new Map<string, number>()
    for (const { event, request, detail, at, token, label } of entries) {
      if (request === null) continue
      if (event === 'ticket') line.set(request, Number(detail.ticket))
      else if (event === 'unticket') {
        line.delete(request)
        left.set(request, Number(detail.ticket))
      } else if (event === 'granted') {
        const own = left.get(request)
        const ahead = [...line.values()].filter(ticket => own === undefined || ticket < own)
        if (ahead.length === 0) continue
        const story = own === undefined ? 'had no ticket' : `had ticket ${own}`
        found.push({
          rule: 'in-line',
          key,
          at,
          story: `token ${token} went to ${label}, who ${story}, past ticket ${Math.min(...ahead)}`,
        })
      }
    }
  }
  return found
}
