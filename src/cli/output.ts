/** The answer of a command: what a script would read. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** What a person is told besides: progress and errors. */
export function tell(text: string): void {
  process.stderr.write(`${redact(text)}\n`)
}

// A mistyped option is repeated in the message about it, and its value may be a connection string.
export function redact(text: string): string {
  return text.replace(/(:\/\/[^\s:/@]*):[^\s']*@/g, '$1:***@').replace(/\b(password=)[^\s&'"]*/gi, '$1***')
}
