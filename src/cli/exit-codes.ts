/** What the command answers to the shell. `run` answers what its command does, where that ran to its end. */
export const exitCode = {
  ok: 0,
  /** `--check` found something, or the database refused. */
  failed: 1,
  /** Wrong usage, or no database named: EX_USAGE. */
  usage: 64,
  /** The database cannot be reached: EX_UNAVAILABLE. */
  unavailable: 69,
  /** `run`: something that nobody foresaw, where 1 would be taken for the command's own: EX_SOFTWARE. */
  unforeseen: 70,
  /** `run`: the lock was not obtained, and the command not started: EX_TEMPFAIL. */
  notObtained: 75,
  /** `run`: the lock was lost, or about to be, and the command ended for it. */
  lost: 76,
  /** The schema is not migrated, the role may not use it, or the name is in use as something else: EX_CONFIG. */
  misconfigured: 78,
  /** `run`: the command cannot be executed, as a shell says it. */
  notExecutable: 126,
  /** `run`: there is no such command, as a shell says it. */
  notFound: 127,
  /** `run`: plus the number of the signal that ended the command, as a shell says it. */
  signalled: 128,
} as const
