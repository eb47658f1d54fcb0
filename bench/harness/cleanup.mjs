/** What must be undone before the bench ends, latest last. @type {(() => unknown)[]} */
const steps = []
let signalled = false
/** @type {Promise<void> | undefined} */
let running

/**
 * Registers something to undo: a server to stop, a folder to remove.
 * @param {() => unknown} step may be asynchronous; its failure is reported and does not stop the others
 */
export function defer(step) {
  steps.push(step)
}

/** Undoes everything registered, latest first. Two callers share one run: a folder outlives the server in it. */
export function cleanUp() {
  running ??= undoAll().finally(() => {
    running = undefined
  })
  return running
}

async function undoAll() {
  while (steps.length > 0) {
    try {
      await steps.pop()?.()
    } catch (error) {
      console.error('clean-up:', error)
    }
  }
}

/** Whether a signal is ending the bench: what fails now, fails because of it. */
export const interrupted = () => signalled

/** Cleans up and exits with 128 + the signal's number when the bench is interrupted. */
export function cleanUpOnSignals() {
  const numbers = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 }
  for (const [signal, number] of Object.entries(numbers)) {
    process.on(signal, async () => {
      if (signalled) return
      signalled = true
      await cleanUp()
      process.exit(128 + number)
    })
  }
}
