import {
  type AcquireOptions,
  Fencepost,
  type FencepostOptions,
  type Lock,
  type PermitOptions,
  type Section,
  type TryAcquireOptions,
} from '../../src/index.ts'
import { major, twistName } from '../support/settings.ts'
import { SoleReader } from './sole-reader.ts'

type Keys = string | readonly string[]

/** Over which ways of connecting the kinds are tried: all that differ, and where the server or the road to it does, one. */
export const waysOfKinds =
  twistName === 'none' && major === '18'
    ? (['a pool', 'a pool, without listening', 'a query function'] as const)
    : (['a pool'] as const)

/** A way of taking a key under which whoever has it excludes everybody else, as an exclusive lock does. */
export interface Kind {
  /** A client whose `acquire`, `tryAcquire` and `withLock` take keys in this way. */
  client(options: FencepostOptions): Fencepost
  /** What a lock of that key is called in its handle and in errors. */
  named(key: string): string
  /** The fencing token that it got for the key it was asked for. */
  token(lock: Lock): bigint
}

/** Made anew for each stage: some kinds remember who has what. */
export type MakeKind = () => Kind

const plain: Pick<Kind, 'named' | 'token'> = { named: key => key, token: lock => lock.token }

export const exclusive: MakeKind = () => ({ ...plain, client: options => new Fencepost(options) })

/** n of the permits of a semaphore that has not enough for two such. */
export function permits(n: number, of: number): MakeKind {
  class Permits extends Fencepost {
    override acquire(key: Keys, options: AcquireOptions = {}): Promise<Lock> {
      return this.#of(key).acquire(taking(options))
    }

    override tryAcquire(key: Keys, options: TryAcquireOptions = {}): Promise<Lock | null> {
      return this.#of(key).tryAcquire(taking(options))
    }

    override withLock<T>(
      key: Keys,
      optionsOrSection: AcquireOptions | Section<T>,
      section?: Section<T>,
    ): Promise<T> {
      const [options, running] = read(optionsOrSection, section)
      return this.#of(key).withPermits(taking(options), running)
    }

    #of(key: Keys) {
      return this.semaphore(key as string, { permits: of })
    }
  }
  const taking = (options: AcquireOptions) => ({ ...options, permits: n }) as PermitOptions
  return () => ({ ...plain, client: options => new Permits(options) })
}

/** The key, and another one beside it. */
export const several: MakeKind = () => ({
  client: options => new Several(options),
  named: key => both(key).join(', '),
  token: lock => [...lock.tokens.values()][0] as bigint,
})

/** It comes after the key in every order. */
const both = (key: string): string[] => [key, `${key.slice(0, 900)}~too`]

class Several extends Fencepost {
  override acquire(key: Keys, options?: AcquireOptions): Promise<Lock> {
    return super.acquire(both(key as string), options)
  }

  override tryAcquire(key: Keys, options?: TryAcquireOptions): Promise<Lock | null> {
    return super.tryAcquire(both(key as string).reverse(), options)
  }

  override withLock<T>(
    key: Keys,
    optionsOrSection: AcquireOptions | Section<T>,
    section?: Section<T>,
  ): Promise<T> {
    return super.withLock(both(key as string), ...read(optionsOrSection, section))
  }
}

/** Whoever asks while there is no reader is one; everybody else is a writer. So a reader is kept out by writers, and keeps them out. */
export const shared: MakeKind = () => {
  const sole = new SoleReader()
  class Readers extends Fencepost {
    readonly #namespace: string

    constructor(options: FencepostOptions) {
      super(options)
      this.#namespace = options.namespace === undefined ? '' : `${options.namespace}:`
    }

    override acquire(key: Keys, options: AcquireOptions = {}): Promise<Lock> {
      return sole.ask(`${this.#namespace}${key}`, mode => super.acquire(key, { ...options, mode }))
    }

    override tryAcquire(key: Keys, options: TryAcquireOptions = {}): Promise<Lock | null> {
      return sole.ask(`${this.#namespace}${key}`, mode => super.tryAcquire(key, { ...options, mode }))
    }

    override withLock<T>(
      key: Keys,
      optionsOrSection: AcquireOptions | Section<T>,
      section?: Section<T>,
    ): Promise<T> {
      const [options, running] = read(optionsOrSection, section)
      return sole.run(`${this.#namespace}${key}`, mode => super.withLock(key, { ...options, mode }, running))
    }
  }
  return { ...plain, client: options => new Readers(options) }
}

function read<T>(
  optionsOrSection: AcquireOptions | Section<T>,
  section: Section<T> | undefined,
): [AcquireOptions, Section<T>] {
  return typeof optionsOrSection === 'function'
    ? [{}, optionsOrSection]
    : [optionsOrSection, section as Section<T>]
}
