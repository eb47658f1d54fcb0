/** What the environment asks of a run of the tests; CONTRIBUTING.md explains each variable. */

const majors = ['18', '14'] as const
const engines = ['url', 'container', 'embedded'] as const
const twists = ['none', 'schema', 'nolisten', 'hostile', 'pgbouncer'] as const

export type Major = (typeof majors)[number]
export type Engine = (typeof engines)[number]
export type TwistName = (typeof twists)[number]

/** Major version of the servers that the tests start themselves. */
export const major: Major = choice('FENCEPOST_PG', majors) ?? '18'

/** Where the server comes from; undefined: the first that is to be had. */
export const engine: Engine | undefined = choice('FENCEPOST_TEST_ENGINE', engines)

/** How the tests connect. */
export const twistName: TwistName = choice('FENCEPOST_TWIST', twists) ?? 'none'

function choice<T extends string>(variable: string, choices: readonly T[]): T | undefined {
  const value = process.env[variable]
  if (value === undefined || value === '') return undefined
  const found = choices.find(each => each === value)
  if (found === undefined) throw new Error(`${variable}: want one of ${choices.join(', ')}, got ${value}`)
  return found
}
