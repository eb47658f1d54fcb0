import type { Edit } from '../instrument/instrument.ts'
import type { Program } from '../program.ts'

/** The protocol with one protection planted out, and where the explorer must notice that. */
export interface Variant {
  readonly name: string
  readonly edits: readonly Edit[]
  /** Run after the functions have been replaced. */
  readonly ddl?: string
  readonly program: Program
  readonly depth: number
  /** What the violation says. */
  readonly finds: RegExp
}
