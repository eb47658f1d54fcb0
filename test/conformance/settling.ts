import { until } from '../support/until.ts'

/** What became of a promise: waits for it, but not for ever as `await` would. */
export async function settling<T>(promise: Promise<T>, within = 5_000): Promise<PromiseSettledResult<T>> {
  let result: PromiseSettledResult<T> | undefined
  void Promise.allSettled([promise]).then(([settled]) => {
    result = settled
  })
  await until(() => result !== undefined, { within, what: 'the promise settles' })
  return result as unknown as PromiseSettledResult<T>
}
