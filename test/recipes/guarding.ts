import { expect, test } from 'vitest'
import { advisoryLock, LostError, NotInTransactionError, type Queryable } from '../../src/index.ts'
import type { Setting } from '../guard/support/setting.ts'

/** What a library's transactions must do for a guard. `note` writes a row by the library's own means. */
export interface Library {
  transaction<T>(
    work: (transaction: Queryable, note: (text: string) => Promise<unknown>) => Promise<T>,
  ): Promise<T>
  /** The same object outside of a transaction. */
  outside(): Queryable
}

/** What the guide says of `lock.guard`, over another library. */
export function guarding(setting: () => Setting, library: () => Library): void {
  test('a guarded transaction writes', async () => {
    const lock = await setting().fencepost().acquire(setting().key())
    const id = await library().transaction(async (transaction, note) => {
      const guard = await lock.guard(transaction)
      await note('written')
      await guard.confirm()
      return guard.transaction
    })
    expect(id).toMatch(/^\d+$/)
    expect(await setting().notes()).toEqual(['written'])
  })

  test('it keeps the next one out until it ends', async () => {
    const [holder, other] = [setting().fencepost(), setting().fencepost()]
    const lock = await holder.acquire(setting().key())
    const order: string[] = []
    let next: Promise<unknown> | undefined
    await library().transaction(async (transaction, note) => {
      await lock.guard(transaction)
      await lock.release()
      next = other.acquire(lock.key).then(() => order.push('granted'))
      expect(await other.tryAcquire(lock.key)).toBeNull()
      await note('under the guard')
      order.push('committing')
    })
    await next
    expect(order).toEqual(['committing', 'granted'])
    expect(await setting().notes()).toEqual(['under the guard'])
  })

  test('a lost lock writes nothing, and the transaction is as usable as before', async () => {
    const holder = setting().fencepost()
    const lock = await holder.acquire(setting().key())
    const { db } = setting()
    await db.query(`delete from "${db.schema.replaceAll('"', '""')}".locks where key = $1`, [lock.key])
    await library().transaction(async (transaction, note) => {
      await expect(lock.guard(transaction)).rejects.toBeInstanceOf(LostError)
      await note('something else')
    })
    expect(await setting().notes()).toEqual(['something else'])
  })

  test('outside of a transaction it is refused', async () => {
    const lock = await setting().fencepost().acquire(setting().key())
    await expect((async () => await lock.guard(library().outside()))()).rejects.toBeInstanceOf(
      NotInTransactionError,
    )
  })

  test('an advisory lock of the transaction', async () => {
    await library().transaction(async (transaction, note) => {
      expect(await advisoryLock(transaction, 'report', { wait: false })).toBe(true)
      await library().transaction(async second => {
        expect(await advisoryLock(second, 'report', { wait: false })).toBe(false)
      })
      await note('alone')
    })
    expect(await setting().notes()).toEqual(['alone'])
  })
}
