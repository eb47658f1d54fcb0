// The watchdog's thread: watchdog.ts says what it is for. Plain JavaScript, for it is loaded as it is, also from the
// sources; and alone, for nothing here may wait for the main thread.
import { write } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { workerData } from 'node:worker_threads'

const { memory, cells, never } = workerData
const now = () => process.hrtime.bigint()

/** Milliseconds that the last line has to be written. */
const patience = 100

/** Waits until the bell is rung, or until that time. */
function sleep(rung, until) {
  Atomics.store(memory, cells.looksAt, until)
  const left = until === never ? Number.POSITIVE_INFINITY : Number(until - now()) / 1e6
  if (left > 0) Atomics.wait(memory, cells.bell, rung, left)
}

/** Answers, if ever, for how many nanoseconds the loop has overlooked that trust is over. */
function watch() {
  /** Of which end of trust it is the loop's turn to notice, and until when. */
  let turn = { of: never, until: never }
  for (;;) {
    const rung = Atomics.load(memory, cells.bell)
    // Awake: whatever is told now is to ring.
    Atomics.store(memory, cells.looksAt, never)
    const trustEnds = Atomics.load(memory, cells.trustEnds)
    const length = Atomics.load(memory, cells.turn)
    const at = now()
    if (at < trustEnds) {
      sleep(rung, trustEnds)
      continue
    }
    // Late by a whole turn: this thread stood still, and so did the loop in its turn.
    if (turn.of !== trustEnds || at >= turn.until + length) turn = { of: trustEnds, until: at + length }
    if (at >= turn.until) return at - trustEnds
    sleep(rung, turn.until)
  }
}

function end() {
  process.kill(process.pid, 'SIGKILL')
  // Still here: the first process of a container is spared what comes from inside. A trap of its own it is not.
  setFlagsFromString('--allow-natives-syntax')
  new Function('%SystemBreak()')()
}

const overlooked = watch()
// Whatever becomes of the line: its reader may have stopped, which may be what the loop waits for.
setTimeout(end, patience)
write(
  2,
  `fencepost: watchdog: a lock was lost ${overlooked / 1_000_000n} ms ago, and the event loop of process ${process.pid} ` +
    'is too busy to notice: killing it\n',
  end,
)
