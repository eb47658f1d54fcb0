/** A violation in one line. */
export const tell = ({ rule, key, story, at }) =>
  `${rule}${key === undefined ? '' : ` at ${key}`}${at ? `, ${(at / 1_000).toFixed(3)} s` : ''}: ${story}`

/** A violation with what was recorded around it: the clients' events and the journal's, of its key, and the faults. */
export function account(violation, run) {
  const { at, key } = violation
  const near = time => at === 0 || Math.abs(time - at) < 1_500
  const lines = [
    ...run.events
      .filter(
        event =>
          near(event.t) &&
          (event.op === 'fault' || event.op === 'process' || (key !== undefined && event.key === key)),
      )
      .map(({ t, process, ...rest }) => [t, `${process.padEnd(10)} ${JSON.stringify(rest)}`]),
    ...run.journal
      .filter(entry => near(entry.at) && (entry.key === key || entry.key === null))
      .map(({ at: t, seq, event, token, label, detail }) => [
        t,
        `database   ${JSON.stringify({ seq, event, token, label, ...detail })}`,
      ]),
  ].sort((a, b) => a[0] - b[0])
  const shown =
    at === 0 ? [] : lines.map(([t, text]) => `${((t - at) / 1_000).toFixed(4).padStart(9)} ${text}`)
  return [tell(violation), ...shown.slice(0, 400), ''].join('\n')
}
