import { BadOptionError } from '../errors.ts'
import { checkJson, checkOptions, type Duration, milliseconds } from '../options.ts'
import { marginOf } from '../session/session.ts'
import { checkSignal, checkTtl } from '../settings.ts'

/** Bytes of JSON, so that the identity fits beside it into a lock's metadata. */
const longestValue = 900
/** Milliseconds. */
const defaultGrace = 3_000
const leastGrace = 500

export interface ElectionOptions {
  /** What the leader says of itself, an address for instance: up to 900 bytes of JSON. @default none */
  readonly value?: unknown
  /** How long a leader outlives its process: 1 s up to the schema's `max_ttl`. @default the client's */
  readonly ttl?: Duration | undefined
  /**
   * How long after the last renewal that was answered a term ends: from ttl/2. What is left until trust ends is the time to
   * stop in, with the leadership still held. @default when trust ends: ttl − max(200 ms, ttl/20)
   */
  readonly renewDeadline?: Duration | undefined
  /**
   * By what a leader that is gone is found out: `'ttl'`, that it has run out; `'fast'`, that its connection is gone for the
   * grace as well, where there is a connection straight to the server. Each such election has a session and a connection of
   * its own. @default 'ttl'
   */
  readonly takeover?: 'ttl' | 'fast' | undefined
  /**
   * Of takeover `'fast'`: how long a leader's connection may be gone before another leads, from 500 ms to the ttl. It is what the
   * ttl is to the leader itself: how long it trusts without an answer. @default '3s', or the ttl if that is shorter
   */
  readonly grace?: Duration | undefined
  /**
   * `'exit'`: ends the process, with exit code 76, when a term is lost and what ran under it has not ended by half of the
   * margin between the end of trust and the moment at which another may lead. @default nothing
   */
  readonly onLost?: 'exit' | undefined
}

export interface CampaignOptions {
  /** Gives the campaign up. Once elected it has no effect. */
  readonly signal?: AbortSignal | undefined
  /** How long to wait; 0 is one attempt. @default for ever */
  readonly timeout?: Duration | undefined
}

export interface LeadOptions {
  /** Ends it: the term's signal is aborted, the callback awaited, the leadership given back. */
  readonly signal?: AbortSignal | undefined
  /** Is told what the callback throws. @default a warning of the process */
  readonly onError?: ((error: unknown) => void) | undefined
}

export interface ObserveOptions {
  /** Ends it. */
  readonly signal?: AbortSignal | undefined
}

/** The options of an election, checked, with the defaults filled in; durations are milliseconds. */
export interface ElectionSettings {
  readonly value: unknown
  readonly ttl: number
  /** Of takeover 'fast'; undefined: takeover by the ttl alone. */
  readonly grace: number | undefined
  /** How much trust is left when a term ends for want of a renewal. */
  readonly reserve: number
  readonly onLost: 'exit' | undefined
}

/** @throws BadOptionError */
export function readElection(options: ElectionOptions, defaultTtl: number): ElectionSettings {
  const { value, ttl: given, renewDeadline, onLost } = checkOptions(options)
  if (onLost !== undefined && onLost !== 'exit') throw new BadOptionError("onLost: want 'exit', or nothing")
  const ttl = given === undefined ? defaultTtl : checkTtl(given)
  const text = checkJson('value', value, longestValue)
  const span = ttl - marginOf(ttl)
  return {
    value: text === undefined ? undefined : JSON.parse(text),
    ttl,
    grace: readGrace(options, ttl),
    reserve: span - milliseconds('renewDeadline', renewDeadline ?? span, ttl / 2, span),
    onLost,
  }
}

function readGrace(
  { takeover = 'ttl', grace, renewDeadline }: ElectionOptions,
  ttl: number,
): number | undefined {
  if (takeover !== 'ttl' && takeover !== 'fast') throw new BadOptionError("takeover: want 'ttl' or 'fast'")
  if (takeover === 'ttl') {
    if (grace !== undefined) throw new BadOptionError("grace: goes with takeover: 'fast'")
    return undefined
  }
  if (renewDeadline !== undefined)
    throw new BadOptionError(
      "renewDeadline: not with takeover: 'fast', under which trust is as short as the grace",
    )
  return milliseconds('grace', grace ?? Math.min(defaultGrace, ttl), leastGrace, ttl)
}

/** @throws BadOptionError */
export function checkLead(callback: unknown, { signal, onError }: LeadOptions): void {
  if (typeof callback !== 'function') throw new BadOptionError('want a function to run as the leader')
  checkSignal(signal)
  if (onError !== undefined && typeof onError !== 'function')
    throw new BadOptionError('onError: want a function')
}
