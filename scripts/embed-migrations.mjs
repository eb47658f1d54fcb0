// Writes src/database/migrations/embedded.ts (ignored by git): the SQL of migrations/ and the manifest as a module, so
// that a bundler carries them along and nothing is looked up beside the program at run time.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

const folder = new URL('../migrations/', import.meta.url)
const target = new URL('../src/database/migrations/embedded.ts', import.meta.url)

function read(name) {
  return readFileSync(new URL(name, folder), 'utf8').replaceAll('\r\n', '\n')
}

/** The two sections of one file, without the lines that head them. */
function sections(name) {
  const parts = read(name).split(/^-- (Up|Down) Migration *\n/m)
  const [, up, upSql, down, downSql] = parts
  if (parts.length !== 5 || up !== 'Up' || down !== 'Down') {
    throw new Error(`${name}: want one line "-- Up Migration", then one line "-- Down Migration"`)
  }
  return { number: Number(name.slice(0, 3)), name: name.slice(0, -4), up: upSql.trim(), down: downSql.trim() }
}

const migrations = readdirSync(folder)
  .filter(name => name.endsWith('.sql'))
  .sort()
  .map(sections)

migrations.forEach(({ number, name }, index) => {
  if (number !== index + 1) throw new Error(`${name}: want the number ${index + 1}, three digits long`)
})

const text = `// Made from migrations/ by scripts/embed-migrations.mjs. Not to be edited.

interface Migration {
  readonly number: number
  readonly name: string
  readonly up: string
  readonly down: string
}

export const embeddedMigrations: readonly Migration[] = ${JSON.stringify(migrations, null, 2)}

export const manifest: Readonly<Record<string, string>> = ${JSON.stringify(JSON.parse(read('manifest.json')), null, 2)}
`

if (readIfThere(target) !== text) writeFileSync(target, text)

function readIfThere(url) {
  try {
    return readFileSync(url, 'utf8')
  } catch {
    return undefined
  }
}
