import { openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/** Milliseconds by CLOCK_MONOTONIC, which all processes of one host share. */
export const now = () => Number(process.hrtime.bigint()) / 1e6

export const sleep = ms => new Promise(resolve => setTimeout(resolve, Math.max(ms, 0)))

/**
 * Writes events of one process, a line of JSON each, at once: what was written before a kill is there after it.
 *
 * @param {string} folder
 * @param {string} name of the process; names its file
 */
export function recorder(folder, name) {
  const file = openSync(join(folder, `${name}.history.jsonl`), 'a')
  return (op, phase, id, fields = {}) => {
    const event = { t: now(), process: name, op, id, phase, ...fields }
    writeSync(
      file,
      `${JSON.stringify(event, (_, value) => (typeof value === 'bigint' ? String(value) : value))}\n`,
    )
  }
}

/** @param {string} path @returns {any[]} its lines; a last one that a kill cut short is left out */
export function readLines(path) {
  const lines = readFileSync(path, 'utf8').split('\n')
  lines.pop()
  return lines.map(line => JSON.parse(line))
}

/** All events of a folder, by time. */
export function readHistory(folder) {
  const files = readdirSync(folder).filter(name => name.endsWith('.history.jsonl'))
  return files.flatMap(name => readLines(join(folder, name))).sort((a, b) => a.t - b.t)
}
