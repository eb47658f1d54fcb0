import type { FencepostError } from '../errors.ts'
import { checkOptions, type Duration, milliseconds } from '../options.ts'
import type { SightHost } from './host.ts'

export interface HealthOptions {
  /** How long the database may take to answer. @default '5s' */
  readonly timeout?: Duration | undefined
}

export interface HealthReport {
  /** A primary with a schema that this client understands answered just now. */
  readonly reached: boolean
  /** Why not. */
  readonly error: FencepostError | null
  /**
   * Which life of the server answered, and since when it is known; null in one that nobody has entered yet. Until
   * `quarantinedUntil` nobody is granted a key who was not in line before: commits may have been lost.
   */
  readonly incarnation: {
    readonly boot: string
    readonly since: Date
    readonly quarantinedUntil: Date | null
  } | null
  /** How this client is woken. `connecting`: that is not known yet, or the connection is away; meanwhile it polls. */
  readonly waking: 'listening' | 'polling' | 'connecting'
  /** When the last heartbeat that was answered was sent, by this process's clock; null before the first lock. */
  readonly lastHeartbeat: Date | null
  /** Milliseconds until trust in what is held ends unless a renewal is answered: 0 is none; null without a session. */
  readonly trustLeft: number | null
  /** Connections of this client's own that are open. */
  readonly connections: number
}

/** Asks the database, and says how this client is. Never fails but for an option. @throws BadOptionError */
export async function health(host: SightHost, options: HealthOptions = {}): Promise<HealthReport> {
  const timeout = milliseconds('timeout', checkOptions(options).timeout ?? '5s', 1, 600_000)
  const asked = await ask(host, timeout)
  const { waking, connections } = host.roads
  const open = host.sessions().filter(session => !session.isOver)
  const renewed = Math.max(...open.map(session => session.renewedAt))
  return {
    ...asked,
    waking,
    connections,
    lastHeartbeat: open.length === 0 ? null : new Date(renewed),
    trustLeft: open.length === 0 ? null : Math.min(...open.map(session => session.remaining())),
  }
}

async function ask(
  host: SightHost,
  timeout: number,
): Promise<Pick<HealthReport, 'reached' | 'error' | 'incarnation'>> {
  try {
    const answer = await host.ask(({ wire }) => host.calls.incarnation(wire, timeout))
    const { boot, since, quarantinedUntil: until } = answer
    const incarnation =
      boot === null || since === null
        ? null
        : { boot, since: new Date(since), quarantinedUntil: until === null ? null : new Date(until) }
    return { reached: true, error: null, incarnation }
  } catch (error) {
    // Whatever it was, `ask` has explained it.
    return { reached: false, error: error as FencepostError, incarnation: null }
  }
}
