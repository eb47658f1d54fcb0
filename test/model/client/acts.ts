import fc from 'fast-check'

/** What is done to the clients, as data. `n` chooses among those that wait, or hold, at that moment. */
export type Act =
  | { readonly do: 'acquire'; readonly client: number; readonly key: number; readonly timeout?: number }
  | { readonly do: 'try'; readonly client: number; readonly key: number }
  | { readonly do: 'abort' | 'release'; readonly n: number }
  /** Ends the backends of one lane of all clients; of `beat`: nobody listens for a while. */
  | { readonly do: 'terminate'; readonly lane: 'beat' | 'ask' | 'return' }

/** Acts that are begun in one turn of the event loop: what they share, they race for. */
export type Step = readonly Act[]

export const clients = 3
export const keys: readonly string[] = ['a', 'b']

const client = fc.nat(clients - 1)
const key = fc.nat(keys.length - 1)
const just = <T extends string>(value: T) => fc.constant(value)

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: just('acquire'), client, key }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: just('acquire'), client, key, timeout: fc.integer({ min: 1, max: 30 }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: just('try'), client, key }) },
  { weight: 3, arbitrary: fc.record({ do: just('abort'), n: fc.nat(9) }) },
  { weight: 6, arbitrary: fc.record({ do: just('release'), n: fc.nat(9) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: just('terminate'), lane: fc.constantFrom('beat', 'ask', 'return') }),
  },
)

export const steps: fc.Arbitrary<Step[]> = fc.array(fc.array(act, { minLength: 1, maxLength: 4 }), {
  minLength: 1,
  maxLength: 16,
  size: 'max',
})
