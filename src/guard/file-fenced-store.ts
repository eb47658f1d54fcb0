import { link, mkdir, open, readdir, readFile, readlink, rm, rmdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { BadKeyError, BadOptionError, StaleTokenError } from '../errors.ts'
import type { FencedStore } from './fenced-store.ts'

/** A call's folder in the name's folder, `TOKEN.NUMBER`. The highest is the mark, and is never removed. */
interface Turn {
  readonly token: bigint
  readonly number: bigint
  readonly folder: string
}

/**
 * A fenced store in a folder of a local file system, for any number of processes, none of which takes a lock: one that
 * stands still holds up nobody. Each call makes a turn of its own, a folder whose `data` is created once, and for good:
 *
 *   make a turn (mkdir) --> look for a newer token: refused --> close the turns of older ones --> create one's `data`
 *
 * To close a turn is to create its `data` as a dangling link; creating fails where there is one, so that either the
 * write has happened before, or it never happens. Who makes a turn and who closes turns both look after they have made
 * theirs: at least one of two sees the other.
 */
export class FileFencedStore implements FencedStore {
  readonly #folder: string

  /** @param folder where it is kept; made when first needed. It needs hard and symbolic links. */
  constructor(folder: string) {
    if (typeof folder !== 'string' || folder === '') throw new BadOptionError('folder: want a path')
    this.#folder = folder
  }

  async enter(name: string, token: bigint): Promise<Buffer | undefined> {
    const turn = await this.#turn(name, token)
    await close(turn, byOwner)
    return await this.read(name)
  }

  async write(name: string, token: bigint, data: Uint8Array | string): Promise<void> {
    for (;;) {
      const turn = await this.#turn(name, token)
      if (await wrote(turn.folder, data)) return await this.#forget(name, turn)
      // Closed by a newer token, which the next turn finds.
    }
  }

  async read(name: string): Promise<Buffer | undefined> {
    let before: string | undefined
    for (;;) {
      const turns = await this.#turns(name)
      for (const { folder } of turns) {
        const data = await readFile(join(folder, 'data')).catch(orMissing)
        if (data) return data
      }
      // What was there may have been forgotten for what is newer while we looked.
      const now = turns.map(({ folder }) => folder).join()
      if (now === before) return undefined
      before = now
    }
  }

  /** A turn of one's own, with every older token shut out. @throws StaleTokenError */
  async #turn(name: string, token: bigint): Promise<Turn> {
    if (typeof token !== 'bigint' || token <= 0n) throw new BadOptionError('token: want a bigint above 0')
    await mkdir(this.#path(name), { recursive: true })
    for (;;) {
      const [newest] = refuseStale(name, token, await this.#turns(name))
      const number = newest && newest.token === token ? newest.number + 1n : 1n
      const folder = join(this.#path(name), `${token}.${number}`)
      if (!(await mkdir(folder).then(() => true, orExists))) continue
      try {
        for (const turn of refuseStale(name, token, await this.#turns(name))) {
          if (turn.token < token) await close(turn, byOther)
        }
      } catch (error) {
        await rmdir(folder).catch(() => {})
        throw error
      }
      return { token, number, folder }
    }
  }

  /** The newest first. */
  async #turns(name: string): Promise<Turn[]> {
    const path = this.#path(name)
    const names = ((await readdir(path).catch(orMissing)) ?? []).filter(each => /^\d+\.\d+$/.test(each))
    return names
      .map(each => {
        const [token = '', number = ''] = each.split('.')
        return { token: BigInt(token), number: BigInt(number), folder: join(path, each) }
      })
      .sort((a, b) => compare(b.token, a.token) || compare(b.number, a.number))
  }

  /**
   * Removes what came before a turn that has written. Not a turn that another closed: its owner may be about to write,
   * and must find it closed.
   */
  async #forget(name: string, turn: Turn): Promise<void> {
    for (const { token, number, folder } of await this.#turns(name)) {
      const isOlder = token < turn.token || (token === turn.token && number < turn.number)
      if (!isOlder || !(await isDone(folder))) continue
      await rm(folder, { recursive: true, force: true }).catch(() => {})
    }
  }

  #path(name: string): string {
    const encoded = typeof name === 'string' ? encodeURIComponent(name).replaceAll('.', '%2E') : ''
    if (encoded === '' || encoded.length > 200) {
      throw new BadKeyError('a name is text, not empty, of at most 200 bytes where it is plain')
    }
    return join(this.#folder, encoded)
  }
}

const byOwner = 'closed by its owner'
const byOther = 'closed by a newer token'

async function close(turn: Turn, by: string): Promise<void> {
  await symlink(by, join(turn.folder, 'data')).catch(error => {
    // Written, closed or removed already.
    if (!['EEXIST', 'ENOENT'].includes(error.code)) throw error
  })
}

/** Whether its owner will create nothing any more. */
async function isDone(folder: string): Promise<boolean> {
  try {
    return (await readlink(join(folder, 'data'))) === byOwner
  } catch (error) {
    // It is a file: the write has happened.
    return (error as { code?: unknown }).code === 'EINVAL'
  }
}

function refuseStale(name: string, token: bigint, turns: Turn[]): Turn[] {
  const [newest] = turns
  if (newest && newest.token > token) throw new StaleTokenError(name, token, newest.token)
  return turns
}

/** False: the turn has been closed. */
async function wrote(folder: string, data: Uint8Array | string): Promise<boolean> {
  const [draft, final] = [join(folder, 'new'), join(folder, 'data')]
  const file = await open(draft, 'wx')
  try {
    await file.writeFile(data)
    await file.sync()
  } finally {
    await file.close()
  }
  const isOurs = await link(draft, final).then(() => true, orExists)
  await rm(draft, { force: true })
  if (isOurs) for (const each of [folder, join(folder, '..')]) await sync(each)
  return isOurs
}

/** What was created in a folder is there after a crash, too. */
async function sync(folder: string): Promise<void> {
  const directory = await open(folder).catch(orMissing)
  await directory?.sync().finally(() => directory.close())
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function orMissing(error: unknown): undefined {
  if ((error as { code?: unknown }).code !== 'ENOENT') throw error
}

function orExists(error: unknown): false {
  if ((error as { code?: unknown }).code !== 'EEXIST') throw error
  return false
}
