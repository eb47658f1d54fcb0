import type { Buffer } from 'node:buffer'

/**
 * Storage that refuses whoever comes with an older token than it has seen. What any implementation owes: a call with
 * token `t` that succeeds has refused, for good, everything that comes later with a token below `t`; and no call that is
 * refused has written anything. The comparison and the write are one step, whatever stands still in between.
 */
export interface FencedStore {
  /**
   * Raises the mark of a name on entry, and answers what is there: nobody with an older token writes it any more, so
   * what is read stays until this token, or a newer one, writes.
   *
   * @throws StaleTokenError
   */
  enter(name: string, token: bigint): Promise<Buffer | undefined>
  /** Writes all of it, or nothing. @throws StaleTokenError */
  write(name: string, token: bigint, data: Uint8Array | string): Promise<void>
  /** What was written last; undefined: nothing. */
  read(name: string): Promise<Buffer | undefined>
}
