/**
 * What a run shows.
 *
 * @param evidence `terms`: who led, in the order in which that was seen; `killed`, `asked`: whom it was done to, and when;
 * `written`: what the leaders wrote, in order; `ttl` in milliseconds
 * @returns {{ ok: boolean, what: string }[]}
 */
export function judge({ terms, killed, asked, written, ttl }) {
  const [first, second, third] = terms
  const after = (term, event) => (term && event ? term.at - event.at : Number.NaN)
  const tokens = written.map(({ token }) => BigInt(token))
  const byTerm = new Map(terms.map(({ token, pid }) => [token, pid]))
  return [
    {
      what: 'three led, one after the other, under tokens that rise',
      ok: terms.length === 3 && first.token < second.token && second.token < third.token,
    },
    {
      what: `the killed one was replaced when its time to live had run out: ${seconds(after(second, killed))}`,
      ok: killed?.pid === first?.pid && second?.pid !== first?.pid && after(second, killed) <= ttl + 1_000,
    },
    {
      what: `the one that was asked to end handed over without that wait: ${seconds(after(third, asked))}`,
      ok: asked?.pid === second?.pid && third?.pid !== second?.pid && after(third, asked) <= ttl / 2,
    },
    {
      what: 'no two led at a time: what they wrote is in the order of their tokens',
      ok: tokens.length > 0 && tokens.every((token, i) => i === 0 || token >= tokens[i - 1]),
    },
    {
      what: 'each line is of the process that led then',
      ok: written.every(({ pid, token }) => byTerm.get(BigInt(token)) === pid),
    },
  ]
}

const seconds = milliseconds => `${(milliseconds / 1_000).toFixed(1)} s`
