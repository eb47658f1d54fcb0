/**
 * A figure as the report shows it.
 * @typedef {object} Column
 * @property {string} figure
 * @property {string} head
 * @property {(value: number) => string} show
 */

const whole = (/** @type {number} */ value) => Math.round(value).toLocaleString('en')
const milliseconds = (/** @type {number} */ value) => value.toFixed(value < 10 ? 2 : 1)

/** What there is to say of cycles. @type {readonly Column[]} */
export const CYCLES = [
  { figure: 'ops', head: 'ops/s', show: whole },
  { figure: 'p50', head: 'p50 ms', show: milliseconds },
  { figure: 'p95', head: 'p95 ms', show: milliseconds },
  { figure: 'p99', head: 'p99 ms', show: milliseconds },
]

/** @param {number} digits after the point */
export const fixed = digits => (/** @type {number} */ value) =>
  value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })

/** @param {number} share */
export const percent = share => `${(share * 100).toFixed(1)} %`

/**
 * The report for people: a block for each case with the columns that it has figures for, then the bars.
 * @param {import('./cells.mjs').Cell[]} cells
 * @param {import('./bars.mjs').Bar[]} bars
 * @param {readonly Column[]} [of] of the blocks
 */
export function formatReport(cells, bars, of = CYCLES) {
  const lines = []
  for (const what of new Set(cells.map(cell => cell.case))) {
    const rows = cells.filter(cell => cell.case === what)
    const shown = of.filter(({ figure }) => rows.some(row => row[figure] !== undefined))
    lines.push(
      ...columns([
        [what, ...shown.map(({ head }) => head)],
        ...rows.map(row => [
          row.who,
          ...shown.map(({ figure, show }) => (row[figure] === undefined ? '' : show(row[figure]))),
        ]),
      ]),
      '',
    )
  }
  if (bars.length === 0) return lines.join('\n').trimEnd()
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
