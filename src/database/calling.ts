import type { Argument } from './arguments.ts'
import type { Row, Statement } from './connection.ts'
import type { Wire } from './lane.ts'
import { quoteIdentifier } from './migrations/quote.ts'
import { plain, type Shape } from './shapes.ts'

/**
 * Calls a function of the schema by name. On a connection of our own as such; elsewhere through a procedure, which makes
 * its own transaction at read committed in the same round trip.
 */
export class Calling {
  readonly #schema: string
  readonly #procedure: string

  /** @param procedure the one that is granted to who may call these functions */
  constructor(schema: string, procedure: 'invoke' | 'invoke_operator' = 'invoke') {
    this.#schema = quoteIdentifier(schema)
    this.#procedure = procedure
  }

  async call(
    wire: Wire,
    timeout: number,
    name: string,
    args: readonly Argument[],
    shape: Shape = plain,
  ): Promise<Row[]> {
    const given = args.filter(([, value]) => value !== undefined)
    let throughInvoke = false
    const rows = await wire.query(direct => {
      throughInvoke = !direct
      return direct ? this.#direct(name, given, shape) : this.#invoke(shape.otherwise ?? name, given)
    }, timeout)
    if (!throughInvoke) return shape.read(rows)
    return (JSON.parse(rows[0]?.[0] ?? 'null') as Row[] | null) ?? []
  }

  #direct(name: string, args: readonly Argument[], shape: Shape): Statement {
    const parameters = args.map(([argument], i) => `${argument} => $${i + 1}`)
    return {
      text: shape.text(`${this.#schema}.${name}(${parameters.join(', ')})`),
      values: args.map(([, value]) => value),
      name: `fencepost_${name}${shape.name}_${args.map(([argument]) => argument[0]).join('')}`,
    }
  }

  #invoke(name: string, args: readonly Argument[]): Statement {
    const named = Object.fromEntries(args.map(([argument, value, json]) => [argument, json ? json() : value]))
    return { text: `call ${this.#schema}.${this.#procedure}($1, $2)`, values: [name, JSON.stringify(named)] }
  }
}

/** An SQL boolean, as text or as JSON. */
export const truth = (value: unknown): boolean => value === 't' || value === true
export const text = (value: string | null | undefined): string => String(value)

/** An array of bigints or ids, as PostgreSQL prints it: `{1,2}`, or null. */
export const listed = (value: string | null | undefined): readonly string[] =>
  value == null || value === '{}' ? none : value.slice(1, -1).split(',')

const none: readonly string[] = []
