// Node 20 reads no TypeScript: the parts that the tests share with this campaign are bundled in memory.
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/**
 * Imports a TypeScript module that stands on nothing but Node.
 *
 * @param {string} path relative to this folder
 * @returns {Promise<any>} its exports
 */
export async function load(path) {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL(path, import.meta.url))],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    logLevel: 'error',
  })
  const text = outputFiles[0]?.text ?? ''
  return await import(`data:text/javascript;base64,${Buffer.from(text).toString('base64')}`)
}
