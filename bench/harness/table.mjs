/**
 * The report for people: a block for each case, then the bars.
 * @param {import('./cells.mjs').Cell[]} cells
 * @param {import('./bars.mjs').Bar[]} bars
 */
export function formatReport(cells, bars) {
  const lines = []
  for (const what of new Set(cells.map(cell => cell.case))) {
    const rows = cells.filter(cell => cell.case === what)
    lines.push(
      ...columns([
        [what, 'ops/s', 'p50 ms', 'p95 ms', 'p99 ms'],
        ...rows.map(({ who, ops, ...times }) => [
          who,
          whole(ops),
          ...[times.p50, times.p95, times.p99].map(milliseconds),
        ]),
      ]),
      '',
    )
  }
  lines.push(
    ...columns([
      ['bar', 'want', 'got', ''],
      ...bars.map(({ what, op, want, got, ok }) => [
        what,
        `${op} ${want}`,
        String(got),
        ok ? 'met' : 'NOT MET',
      ]),
    ]),
  )
  return lines.join('\n')
}

/**
 * Pads texts to columns, the first to the left.
 * @param {string[][]} rows
 * @param {'left' | 'right'} [others] the side that the others are set to
 */
export function columns(rows, others = 'right') {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map(row => row[column]?.length ?? 0)))
  const pad = (/** @type {string} */ text, /** @type {number} */ column) =>
    column === 0 || others === 'left' ? text.padEnd(widths[column] ?? 0) : text.padStart(widths[column] ?? 0)
  return rows.map(row => row.map(pad).join('  ').trimEnd())
}

const whole = (/** @type {number} */ value) => Math.round(value).toLocaleString('en')
const milliseconds = (/** @type {number} */ value) => value.toFixed(value < 10 ? 2 : 1)
