import CliTable from 'cli-table3'

export type Cell = string | number | bigint | null

/** No lines, two spaces between columns: to be read, and cut by other tools. */
const plain = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '  ',
}

/** A table for people, as lines. A null is a dash. */
export function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const made = new CliTable({
    head: [...head],
    chars: plain,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  })
  for (const row of rows) made.push(row.map(cell => (cell === null ? '-' : visible(String(cell)))))
  return made
    .toString()
    .split('\n')
    .map(line => line.trimEnd())
    .join('\n')
}

/** A key may hold any character: those that would move a terminal's cursor, or turn its text around, are spelled out. */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, character => {
    const code = character.codePointAt(0) ?? 0
    return `\\u{${code.toString(16)}}`
  })
}

/** Milliseconds for people: `850ms`, `12.3s`, `4m 10s`, `3h 5m`. */
export function duration(milliseconds: number): string {
  if (milliseconds < 1_000) return `${Math.round(milliseconds)}ms`
  if (milliseconds < 60_000) return `${(Math.floor(milliseconds / 100) / 10).toFixed(1)}s`
  const seconds = Math.floor(milliseconds / 1_000)
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes}m ${seconds % 60}s`
  return `${Math.floor(minutes / 60)}h ${minutes % 60}m`
}
