/** Text as an SQL identifier. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Text as an SQL literal, whatever `standard_conforming_strings` says. */
export function quoteLiteral(text: string): string {
  const doubled = text.replaceAll("'", "''")
  return text.includes('\\') ? ` E'${doubled.replaceAll('\\', '\\\\')}'` : `'${doubled}'`
}

/** Text between dollar quotes with a tag that does not occur in it, so that it needs no escaping. */
export function dollarQuote(text: string, tag: string): string {
  let quote = `$${tag}$`
  for (let n = 2; text.includes(quote); n += 1) quote = `$${tag}${n}$`
  return `${quote}\n${text}\n${quote}`
}
