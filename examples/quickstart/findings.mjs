/**
 * Judges what was seen. Nothing here knows what should have happened when: it compares what the database and the
 * processes said with what Fencepost promises.
 *
 * @param evidence `journal`: rows {holder, token, did} in order; `line`: who stood in line, in order, after the first
 * holder had read; `killed`: {who, signal, heir, expected, after}; `slept`: {who, for, state, reason, outcome};
 * `counter` and `acknowledged`: its value, and the writes that were reported as done; `ttl` and `poll`
 * @returns {{ ok: boolean, what: string }[]}
 */
export function judge({ journal, line, killed, slept, counter, acknowledged, ttl, poll }) {
  const grants = journal.filter(({ did }) => did === 'read')
  const entered = grants.slice(1, 1 + line.length).map(({ holder }) => holder)
  const tookOver = grants.findIndex(
    ({ holder }, i) => i > 0 && grants[i - 1].holder === slept.who && holder !== slept.who,
  )
  return [
    {
      ok: grants.length > 1 && rises(grants),
      what: `tokens rise: ${grants.length} grants, each with a higher token than the one before`,
    },
    {
      ok: line.length > 1 && String(entered) === String(line),
      what: `the line is kept: ${line.join(', ')} stood in line; ${entered.join(', ')} was the order`,
    },
    {
      ok: killed.signal === 'SIGKILL' && killed.heir === killed.expected && killed.after <= ttl + poll,
      what: `${killed.who} ended by ${killed.signal}; the next in line, ${killed.heir}, held ${killed.after} ms later (ttl ${ttl} ms)`,
    },
    {
      ok: slept.for > ttl && tookOver > 0 && slept.state === 'lost' && slept.reason !== undefined,
      what: `${slept.who} stood still for ${slept.for} ms, another came in, and ${slept.who} was told: ${slept.state}, ${slept.reason}`,
    },
    {
      ok: slept.outcome === 'FP002' && neverFalls(journal),
      what: `the write with the old token was refused: ${slept.outcome}`,
    },
    {
      ok: acknowledged > 0 && counter === acknowledged,
      what: `no update is lost: ${acknowledged} writes were acknowledged, and the counter says ${counter}`,
    },
  ]
}

const rises = rows => rows.every(({ token }, i) => i === 0 || BigInt(token) > BigInt(rows[i - 1].token))
const neverFalls = rows => rows.every(({ token }, i) => i === 0 || BigInt(token) >= BigInt(rows[i - 1].token))
