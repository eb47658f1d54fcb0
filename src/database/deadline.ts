/** Rejects when the promise has not been settled in time; what it brings later is dropped. */
export async function withDeadline<T>(promise: Promise<T>, timeout: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(noAnswer(timeout)), timeout)
    timer.unref()
  })
  promise.catch(() => {})
  try {
    return await Promise.race([promise, deadline])
  } finally {
    clearTimeout(timer)
  }
}

export function noAnswer(timeout: number): Error {
  return new Error(`no answer within ${Math.round(timeout)} ms`)
}
