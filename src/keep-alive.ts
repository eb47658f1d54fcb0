/**
 * Sockets and timers of ours never keep a process alive, but a caller who waits for us does: one timer for all of them,
 * while there are any.
 */
let waiting = 0
let timer: NodeJS.Timeout | undefined

export function keepAlive(): void {
  waiting += 1
  if (waiting > 1) return
  timer ??= setInterval(() => {}, 2 ** 30)
  timer.ref()
}

export function letGo(): void {
  waiting -= 1
  if (waiting === 0) timer?.unref()
}

/** Keeps the process alive until the promise is settled. */
export async function whileAlive<T>(promise: Promise<T>): Promise<T> {
  keepAlive()
  try {
    return await promise
  } finally {
    letGo()
  }
}
