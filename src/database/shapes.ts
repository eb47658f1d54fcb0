import type { Row } from './connection.ts'

/** In which form a function's answer travels. */
export interface Shape {
  /** Part of the prepared statement's name. */
  readonly name: string
  /** What `invoke` is asked for instead. */
  readonly otherwise?: string
  /** The statement, of a call such as `f($1)`. */
  text(call: string): string
  /** The rows of the function's own, as far as they travelled. */
  read(rows: Row[]): Row[]
}

export const plain: Shape = {
  name: '',
  text: call => `select * from ${call}`,
  read: rows => rows,
}

/** What is not in the answer was released: a row for each that says so would cost half as much as the release. */
export const butReleased: Shape = {
  name: '_rest',
  text: call => `select * from ${call} where outcome <> 'released'`,
  read: rows => rows,
}

/** Of a procedure that notifies by itself: its seventh column is whom. @param otherwise what it does, without that */
export const notifying = (otherwise: string): Shape => ({
  name: '',
  otherwise,
  text: call => `call ${call}`,
  read: ([row]) => JSON.parse(row?.[0] ?? '[]') ?? [],
})

/**
 * What was granted at once comes in one text, which is taken apart at a third of the cost of as many rows; the rest as
 * JSON, one array each.
 */
export const packed: Shape = {
  name: '_packed',
  text: call => `
    select string_agg(a.request || ' ' || a.token, ' ') filter (where a.outcome = 'granted' and a.key is null),
           json_agg(json_build_array(a.request, a.outcome, a.token::text, a.key, a.channel, a.expires_in, a.level::text))
             filter (where a.outcome <> 'granted' or a.key is not null)
      from ${call} a`,
  read([row]) {
    const words = row?.[0]?.split(' ') ?? []
    const rows: Row[] = JSON.parse(row?.[1] ?? '[]')
    for (let i = 0; i < words.length; i += 2)
      rows.push([words[i] as string, 'granted', words[i + 1] as string])
    return rows
  },
}
