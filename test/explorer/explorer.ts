import pg from 'pg'
import { janitor, sessionId } from './calls.ts'
import { type Edit, type Instrumented, instrument, type Point } from './instrument/instrument.ts'
import { type Program, quietTables } from './program.ts'
import { type Found, type SearchOptions, search } from './search.ts'
import { Stage } from './stage.ts'

/** The protocol in one database, made ready to be stepped through; with edits, a variant of it. */
export class Explorer {
  readonly protocol: Instrumented
  readonly #url: string
  readonly #schema: string

  private constructor(url: string, schema: string, protocol: Instrumented) {
    this.#url = url
    this.#schema = schema
    this.protocol = protocol
  }

  /** @param url of a database of the explorer's own, with the schema in it: its functions are replaced */
  static async install(
    url: string,
    schema: string,
    edits: readonly Edit[] = [],
    ddl = '',
  ): Promise<Explorer> {
    const control = new pg.Client({ connectionString: url })
    await control.connect()
    try {
      await control.query(`select set_config('search_path', quote_ident('${schema}') || ', pg_temp', false)`)
      const protocol = await instrument(control, edits)
      if (ddl) await control.query(ddl)
      return new Explorer(url, schema, protocol)
    } finally {
      await control.end()
    }
  }

  /** Tries every schedule of a program within the bounds; ends with the first violation. */
  async explore(program: Program, options: SearchOptions = {}): Promise<Found> {
    const { grain = 'statements' } = options
    const points =
      grain === 'calls' ? [] : [...this.protocol.points.values()].filter(point => counts(point, program))
    const stops = points.map(({ id }) => id)
    const stage = await Stage.open(
      this.#url,
      this.#schema,
      program.actors.map(({ whole }) => (whole ? [] : stops)),
    )
    try {
      await prepare(program, stage)
      return await search(program, stage, this.protocol, options)
    } finally {
      await stage.close()
    }
  }
}

// A point counts where what follows it touches anything that another actor may change.
export function counts({ footprint, oneKey, inner }: Point, program: Program): boolean {
  const reach = program.key === undefined ? footprint : oneKey
  const quiet = new Set(quietTables(program))
  if ([...reach.sees, ...reach.locks].some(table => !quiet.has(table))) return true
  if (inner) return false
  return reach.tickets || reach.draws || reach.counts || (reach.clock && program.clock !== undefined)
}

async function prepare(program: Program, stage: Stage): Promise<void> {
  const { control } = stage
  await control.query('select explorer.clear()')
  for (const [name, ttl] of Object.entries(program.sessions)) {
    await control.query(`select open_session($1, make_interval(secs => $2))`, [sessionId(name), ttl])
  }
  await control.query(`select open_session($1, '60s')`, [janitor])
  for (const step of program.before ?? []) {
    const pass = typeof step === 'number'
    await control.query(
      pass ? `select setval('explorer.clock', (select last_value + ${step} from explorer.clock))` : step.sql,
    )
  }
  await control.query('select explorer.save()')
}
