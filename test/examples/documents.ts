import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const root: string = fileURLToPath(new URL('../../', import.meta.url))

export function read(file: string): string {
  return readFileSync(`${root}${file}`, 'utf8')
}

/** The part of a document under a heading, given without its marks. */
export function section(document: string, title: string): string {
  const headings = [...document.matchAll(/^## (.*)$/gm)]
  const at = headings.findIndex(([, text]) => text === title)
  if (at < 0) throw new Error(`no heading ${title}`)
  return document.slice(headings[at]?.index, headings[at + 1]?.index)
}

/** The code blocks of one language, in order. */
export function blocks(text: string, language: string): string[] {
  return [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].flatMap(([, name, code]) =>
    name === language && code !== undefined ? [code] : [],
  )
}

/** The rows of all tables, as cells, without their heads. */
export function tableRows(text: string): string[][] {
  return text
    .split('\n')
    .filter(line => line.startsWith('| ') && !line.startsWith('| ---'))
    .map(line => line.slice(2, -2).split(/ +\| */))
}
