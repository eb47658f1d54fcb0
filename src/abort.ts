interface Watch {
  readonly callbacks: Set<() => void>
  readonly listener: () => void
}

/**
 * One listener for each signal, however many wait on it: a signal of a request or of a shutdown is shared by many locks,
 * and Node warns of a leak from the eleventh listener on.
 */
const watches = new WeakMap<AbortSignal, Watch>()

/** Calls back once when the signal is aborted, unless the returned function is called before. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  let watch = watches.get(signal)
  if (!watch) {
    const callbacks = new Set<() => void>()
    const listener = (): void => {
      watches.delete(signal)
      for (const each of [...callbacks]) each()
    }
    watch = { callbacks, listener }
    watches.set(signal, watch)
    signal.addEventListener('abort', listener, { once: true })
  }
  const { callbacks, listener } = watch
  callbacks.add(callback)
  return () => {
    if (!callbacks.delete(callback) || callbacks.size > 0) return
    watches.delete(signal)
    signal.removeEventListener('abort', listener)
  }
}

/** The same, and at once where it is aborted already. */
export function whenAborted(signal: AbortSignal, callback: () => void): () => void {
  if (!signal.aborted) return onAbort(signal, callback)
  callback()
  return () => {}
}
