import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from 'pg'
import { type Footprint, footprintOf, lookingOnly, matters, nothing, union, without } from './footprint.ts'
import { plain, statementsOf } from './plpgsql.ts'
import {
  draws,
  explored,
  type InnerPoint,
  inert,
  innerPoints,
  premises,
  required,
  settled,
  withOwnRow,
} from './points.ts'

/** A place where an actor can be stopped, and what it touches from there to the next one. */
export interface Point {
  readonly id: number
  /** `function: first words of the statement`, or `function: what it has just done`. */
  readonly name: string
  readonly footprint: Footprint
  /** The same where no other key than its own is in play. */
  readonly oneKey: Footprint
  /** Inside of a statement. */
  readonly inner: boolean
}

/** A change of one function's text, for a variant of the protocol with a protection planted out. */
export interface Edit {
  readonly function: string
  /** Occurs once in the function, whatever its white space. */
  readonly from: string
  readonly to: string
}

export interface Instrumented {
  readonly points: ReadonlyMap<number, Point>
  /** What a call of the function can touch, with all that it calls. */
  readonly footprints: ReadonlyMap<string, Footprint>
}

interface Source {
  name: string
  definition: string
  body: string
}

/**
 * Replaces the protocol's functions in this database by the same with a gate before each statement that touches what
 * others may change, and inside of those in {@link innerPoints}; and every clock by one that the explorer moves.
 *
 * @throws Error when a pattern no longer fits the migrations: better that than an explorer that sees nothing.
 */
export async function instrument(control: Client, edits: readonly Edit[] = []): Promise<Instrumented> {
  await control.query(readFileSync(join(import.meta.dirname, 'explorer.sql'), 'utf8'))
  const sources = await read(control)
  for (const edit of edits) {
    const source = find(sources, edit.function)
    source.body = replaceOnce(source.body, pattern(edit.from), edit.to, `the edit of ${edit.function}`)
  }
  for (const premise of edits.length > 0 ? [] : premises) {
    if (!pattern(premise.in).test(find(sources, premise.function).body))
      throw new Error(`explorer: ${premise.function}: no longer in the text: ${premise.in}`)
  }
  const edited = new Set(edits.map(edit => edit.function))
  const gates = new Gates(sources, edited)
  for (const source of sources) {
    const body = explored.includes(source.name) ? gates.into(source) : source.body
    await install(control, source, source.name === 'durable' ? 'begin end' : body)
  }
  for (const wanted of required) {
    if (edited.has(wanted.split(':')[0] ?? '')) continue
    if (!gates.points.some(point => point.name.startsWith(wanted)))
      throw new Error(`explorer: no point ${wanted} any more`)
  }
  return {
    points: new Map(gates.points.map(point => [point.id, point])),
    footprints: new Map([...explored, ...inert].map(name => [name, gates.reach(name)])),
  }
}

async function read(control: Client): Promise<Source[]> {
  const { rows } = await control.query<Source>(
    `select p.proname as name, pg_get_functiondef(p.oid) as definition, p.prosrc as body
       from pg_proc p where p.pronamespace = quote_ident(current_schema())::regnamespace and p.prokind = 'f' order by p.proname`,
  )
  return rows
}

function find(sources: readonly Source[], name: string): Source {
  const found = sources.filter(source => source.name === name)
  if (found.length !== 1 || !found[0]) throw new Error(`explorer: ${found.length} functions ${name}, want 1`)
  return found[0]
}

// What edits and gates have made of the body goes in where the old one stood. Times in a table's defaults decide nothing.
async function install(control: Client, source: Source, body: string): Promise<void> {
  const original = (await control.query('select prosrc from pg_proc where oid = $1::regproc', [source.name]))
    .rows[0].prosrc
  const changed = body.replaceAll('clock_timestamp()', 'explorer.now()')
  if (changed === original) return
  await control.query(source.definition.replace(original, () => changed))
}

function replaceOnce(text: string, from: RegExp, to: string, where: string): string {
  const found = text.match(from)?.length ?? 0
  if (found !== 1)
    throw new Error(`explorer: ${where}: ${found} times in the text, want once: ${from.source}`)
  return text.replace(from, () => to)
}

// White space may change without anybody being wrong.
function pattern(text: string): RegExp {
  const words = text.split(/\s+/).map(word => word.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(words.join('\\s+'), 'g')
}

class Gates {
  readonly points: Point[] = []
  readonly #sources: readonly Source[]
  readonly #edited: ReadonlySet<string>

  constructor(sources: readonly Source[], edited: ReadonlySet<string>) {
    this.#sources = sources
    this.#edited = edited
    for (const name of [...explored, ...inert, ...settled]) find(sources, name)
  }

  into(source: Source): string {
    const inner = this.#withInner(source)
    let body = ''
    let done = 0
    for (const { at, text } of statementsOf(inner)) {
      const whole = union(footprintOf(text), ...this.#calls(text, inert).map(name => this.reach(name)))
      if (!matters(whole)) continue
      const inside = [...text.matchAll(/explorer\.(?:gate|drawn)\((\d+)/g)].map(match => Number(match[1]))
      for (const id of inside) this.#set(id, { ...whole, draws: false })
      const name = `${source.name}: ${plain(text)
        .replaceAll(/explorer\.gate\(\d+\) and /g, '')
        .slice(0, 70)}`
      const id = this.#add(name, inside.length > 0 ? lookingOnly(whole) : whole)
      body += `${inner.slice(done, at)}assert explorer.gate(${id}); `
      done = at
    }
    return body + inner.slice(done)
  }

  /** All that a call of the function can touch. */
  reach(name: string, visited: Set<string> = new Set()): Footprint {
    if (visited.has(name)) return nothing
    visited.add(name)
    const { body } = find(this.#sources, name)
    const below = this.#calls(body, [...explored, ...inert]).map(callee => this.reach(callee, visited))
    return union(footprintOf(body), ...below)
  }

  #withInner(source: Source): string {
    let { body } = source
    for (const point of innerPoints.filter(each => each.function === source.name)) {
      body = this.#inside(body, point, (text, id) =>
        text.replace(/(.*\bwhere\s)/s, `$1explorer.gate(${id}) and `),
      )
    }
    for (const point of draws.filter(each => each.function === source.name)) {
      body = this.#inside(body, point, (text, id) =>
        text.replace(/(base \+ nextval.*)$/s, `explorer.drawn(${id}, $1)`),
      )
    }
    return body
  }

  #inside(body: string, point: InnerPoint, change: (text: string, id: number) => string): string {
    const found = [...body.matchAll(pattern(point.in))]
    // Only a variant may have lost the statement.
    if (found.length === 0 && this.#edited.has(point.function)) return body
    const [match] = found
    if (found.length !== 1 || !match) {
      throw new Error(
        `explorer: ${point.function}: ${found.length} times in the text, want once: ${point.in}`,
      )
    }
    const id = this.#add(`${point.function}: ${point.name}`, nothing, true)
    return body.slice(0, match.index) + change(match[0], id) + body.slice(match.index + match[0].length)
  }

  // Every function of the schema that a text calls must be known, or its statements would go unseen.
  #calls(text: string, wanted: readonly string[]): string[] {
    const names = new Set([...text.matchAll(/\b([a-z_]+)\s*\(/g)].map(match => match[1] ?? ''))
    const ours = this.#sources.map(source => source.name).filter(name => names.has(name))
    for (const name of ours) {
      if (![...explored, ...inert, ...settled].includes(name))
        throw new Error(`explorer: ${name} is not known to points.ts`)
    }
    return ours.filter(name => wanted.includes(name))
  }

  #add(name: string, footprint: Footprint, inner = false): number {
    const id = this.points.length + 1
    this.points.push({ id, name, footprint, oneKey: footprint, inner })
    this.#set(id, footprint)
    return id
  }

  // In a variant nothing is taken for granted.
  #set(id: number, footprint: Footprint): void {
    const point = this.points[id - 1]
    if (!point) return
    const own = this.#edited.size === 0 && withOwnRow.some(prefix => point.name.startsWith(prefix))
    this.points[id - 1] = { ...point, footprint, oneKey: own ? without(footprint, ['locks']) : footprint }
  }
}
