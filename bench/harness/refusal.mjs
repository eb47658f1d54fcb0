/** Why the bench cannot run, in words for whoever started it: printed without a stack. */
export class Refusal extends Error {}

/** What to print of an error. @param {unknown} error */
export function describeError(error) {
  if (error instanceof Refusal) return error.message
  return error instanceof Error ? String(error.stack) : String(error)
}
