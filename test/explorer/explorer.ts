import pg from 'pg'
import { janitor, sessionId } from './calls.ts'
import { type Edit, type Instrumented, instrument, type Point } from './instrument/instrument.ts'
import { type Program, quietTables } from './program.ts'
import { type Found, type SearchOptions, search } from './search.ts'
import { Stage } from './stage.ts'

// THE EXPLORER steps two or three connections through the SQL functions in every order, and asks after each commit
// whether the promises still hold. The idea is that of PostgreSQL's isolationtester; the orders are not written down
// here but enumerated.
//
//   rest --begin--> (gate --pass-->)* returned --commit--> rest          an actor, with one call after the other
//                    any move may end in: blocked --who has the row ends--> gate or returned
//                    returned --its backend is terminated--> recovery, or a crashed process
//
// A gate stands before each statement of the functions that touches what others may change, and inside of those that
// look for a row and then lock it (instrument/). Only one backend moves at a time; who waits for a row, and for whom,
// the server is asked. The clock of the functions is one that the explorer moves, at any moment (Program.clock).
//
// The server's state cannot be put back to the middle of a transaction: each schedule runs from the beginning, along
// the prefix that led to its last untried choice, and on from there (search.ts). It is left as soon as it has come to a
// state that was gone on from before; states are compared by their histories, up to the order of steps that touch
// different things (trace.ts). What is left out so makes no difference: reduction.test.ts tries both ways.
// `depth` bounds how often an actor that could go on is left standing for another.
//
// record.ts has the promises: one holder, rising tokens, the line kept in order, no ticket without a contended row, no
// ghost of a request given up, no grant beside a pin, no stale guard, nobody who believes what is not so (clients.ts),
// no deadlock, no other error; and after each schedule time passes, and nobody may be forgotten and nothing left over.
// naive/ has protocols that break them, and are found out.
//
// Not here: crashes of the server, commits that are lost, several databases, the client's own code.

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
      await control.query(`select set_config('search_path', quote_ident($1) || ', pg_temp', false)`, [schema])
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
