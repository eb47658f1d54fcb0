import { notRun } from './not-run.ts'
import { Notes } from './notes.ts'
import { Signals } from './signals.ts'

/** Does what runs a command, with the signals of this process in hand. Answers the exit code; what it throws is told. */
export async function attend(
  key: string,
  json: boolean,
  work: (notes: Notes, signals: Signals) => Promise<number>,
): Promise<number> {
  const notes = new Notes(json)
  const signals = new Signals()
  try {
    return await work(notes, signals)
  } catch (error) {
    return notRun(error, key, notes)
  } finally {
    signals.stop()
    // All that is to be said is written by then. A connection that still waits for an answer is not to hold us up.
    setTimeout(() => process.exit(), 0).unref()
  }
}
