// node file-store-child.mjs FOLDER ROUNDS: adds to the number in a fenced store, with tokens drawn from its parent.
import { setTimeout as pause } from 'node:timers/promises'
import { FileFencedStore } from '../../dist/index.js'

const [folder = ''] = process.argv.slice(2)
const store = new FileFencedStore(folder)

process.on('message', async ({ token, delay }) => {
  try {
    const value = Number((await store.enter('n', BigInt(token))) ?? 0)
    await pause(delay)
    await store.write('n', BigInt(token), String(value + 1))
    process.send?.({ token, wrote: value + 1 })
  } catch (error) {
    process.send?.({ token, refused: error.code ?? String(error) })
  }
})
process.on('disconnect', () => process.exit())
process.send?.({ ready: true })
