/** Resolves when all of them are settled, or after `timeout` milliseconds. */
export async function settled(promises: readonly Promise<unknown>[], timeout: number): Promise<void> {
  await within(Promise.allSettled(promises), timeout)
}

/** Resolves when the promise does, or after `timeout` milliseconds. */
export async function within(promise: Promise<unknown>, timeout: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  await Promise.race([
    promise,
    new Promise<void>(resolve => {
      if (timeout < 2 ** 31) timer = setTimeout(resolve, timeout)
    }),
  ])
  clearTimeout(timer)
}
