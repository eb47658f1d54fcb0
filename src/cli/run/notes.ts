import { writeSync } from 'node:fs'
import { redact } from '../output.ts'

type Fields = Readonly<Record<string, string | number | undefined>>

/**
 * What `run` itself has to say. All of it goes to stderr, for stdout is the command's: sentences for people, or one
 * JSON object a line, of which each has an `event`.
 */
export class Notes {
  readonly #json: boolean

  constructor(json: boolean) {
    this.#json = json
  }

  /** @param sentence for people; none where they need not be told */
  say(event: string, fields: Fields, sentence?: string): void {
    if (this.#json) write(JSON.stringify({ event, ...fields }, redacted))
    else if (sentence !== undefined) write(redact(`fencepost: ${sentence}`))
  }
}

// Not by process.stderr: that makes a pipe non-blocking, for the command as well, whose writes would then fail when
// nobody reads fast enough. And where nobody reads at all, the command is to run all the same.
function write(line: string): void {
  try {
    writeSync(2, `${line}\n`)
  } catch {
    // The reader has gone, or the terminal.
  }
}

/** Each text by itself: of a whole line, all between a `://` and a later `@` would be taken for one password. */
function redacted(_: string, field: unknown): unknown {
  return typeof field === 'string' ? redact(field) : field
}
