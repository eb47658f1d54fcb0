import { plants } from './index.mjs'

const plant = plants.find(one => one.name === process.env.FENCEPOST_FAULTS_PLANT)

/** @type {import('node:module').LoadHook} */
export async function load(url, context, next) {
  const loaded = await next(url, context)
  const change = plant?.client?.find(one => url.endsWith(`/dist/${one.file}`))
  if (!change) return loaded
  const source = String(loaded.source)
  if (!source.includes(change.find))
    throw new Error(`plant ${plant?.name}: ${change.file} has no longer ${change.find}`)
  return { ...loaded, source: source.replace(change.find, change.replace) }
}
