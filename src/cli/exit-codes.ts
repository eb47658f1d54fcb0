/** What the command answers to the shell. */
export const exitCode = {
  ok: 0,
  /** `--check` found something, or the database refused. */
  failed: 1,
  /** Wrong usage, or no database named: EX_USAGE. */
  usage: 64,
  /** The database cannot be reached: EX_UNAVAILABLE. */
  unavailable: 69,
} as const
