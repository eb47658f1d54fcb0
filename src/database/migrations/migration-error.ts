import { FencepostError } from '../../errors.ts'

/**
 * The server refused a step of a migration; `cause` is its error. Nothing of the call has been applied.
 * A down migration while sessions are alive ends here, with the SQLSTATE FP006 in `cause.code`.
 */
export class MigrationError extends FencepostError {
  static {
    Object.assign(MigrationError.prototype, { name: 'MigrationError', code: 'migration_refused' })
  }

  constructor(what: string, cause: unknown) {
    super(`${what}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}
