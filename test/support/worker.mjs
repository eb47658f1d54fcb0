// The child's half of child.ts: JSON lines in and out.
import { createInterface } from 'node:readline'

/** Says something to the parent, at once. Tokens and other bigints travel as decimal strings. */
export function say(name, fields = {}) {
  const text = JSON.stringify({ name, ...fields }, (_, value) =>
    typeof value === 'bigint' ? String(value) : value,
  )
  process.stdout.write(`${text}\n`)
}

/**
 * Calls `handlers[name](fields)` for each message of the parent. The process stays alive for it, and exits when the
 * parent is gone. A handler that throws ends the process, with the error in its log.
 */
export function listen(handlers) {
  const lines = createInterface({ input: process.stdin })
  lines.on('line', async line => {
    const { name, ...fields } = JSON.parse(line)
    await handlers[name](fields)
  })
  lines.on('close', () => process.exit(0))
}
