// npm run example -- NAME [options]: each example is a folder here, whose main.mjs says what it shows.
import { existsSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const [name, ...rest] = process.argv.slice(2)
const entry = folder => new URL(`./${folder}/main.mjs`, import.meta.url)
const names = readdirSync(new URL('.', import.meta.url)).filter(each =>
  existsSync(fileURLToPath(entry(each))),
)

if (names.includes(name)) {
  process.argv.splice(2, process.argv.length, ...rest)
  await import(entry(name).href)
} else {
  console.error(`usage: npm run example -- NAME [options]\n  NAME is one of: ${names.join(', ')}`)
  process.exitCode = 64
}
