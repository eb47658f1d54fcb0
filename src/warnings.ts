/** What a client says once, where nobody has asked. */
export function once(tell: () => void): () => void {
  let isTold = false
  return () => {
    if (!isTold) tell()
    isTold = true
  }
}

export function warnOfPolling(): void {
  process.emitWarning(
    'this connection is not the server’s own, or brings no notification (a pooler?): waiting by polling. ' +
      'Give listen: { connectionString } a direct connection, or listen: false to say that this is meant.',
    { type: 'FencepostWarning', code: 'FENCEPOST_POLLING' },
  )
}

export function warnOfWatchdog(error: Error): void {
  process.emitWarning(`the watchdog has ended, and nothing is watched any more: ${error.message}`, {
    type: 'FencepostWarning',
    code: 'FENCEPOST_WATCHDOG',
  })
}

export function warnOfOpenGuard(key: string, milliseconds: number): void {
  process.emitWarning(
    `a transaction under ${JSON.stringify(key)} has been open for ${milliseconds} ms: the line waits for it`,
    { type: 'FencepostWarning', code: 'FENCEPOST_GUARD_OPEN' },
  )
}
