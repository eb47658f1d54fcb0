import fc from 'fast-check'

/** One step, as data. Numbers choose among what there is at that moment: the n-th latest request or grant. */
export type Command =
  | { readonly do: 'open'; readonly slot: number }
  | { readonly do: 'acquire'; readonly slot: number; readonly wants: readonly Wanted[] }
  | { readonly do: 'repeat'; readonly slot: number; readonly requests: readonly number[] }
  | { readonly do: 'release'; readonly grants: readonly number[] }
  | { readonly do: 'anew'; readonly grant: number; readonly requests: number }
  | { readonly do: 'cancel'; readonly requests: readonly number[] }
  | { readonly do: 'downgrade'; readonly grant: number }
  | { readonly do: 'resize'; readonly slot: number; readonly key: number; readonly capacity: number }
  | { readonly do: 'tick'; readonly slot: number; readonly overAll: boolean }
  | { readonly do: 'heartbeat' | 'settle' | 'expire' | 'close'; readonly slot: number }
  | { readonly do: 'force'; readonly grant: number; readonly whole: boolean; readonly now: boolean }
  | { readonly do: 'due'; readonly key: number }
  | { readonly do: 'rested' }
  | { readonly do: 'pin'; readonly guard: number; readonly grant: number }
  | { readonly do: 'unpin'; readonly guard: number }
  | { readonly do: 'seize'; readonly slot: number }
  | { readonly do: 'let go' }

interface Wanted {
  readonly kind: 'exclusive' | 'shared' | 'permits' | 'several'
  readonly key: number
  /** Of several: how many more. */
  readonly more: number
  readonly permits: number
  /** Asks as if the semaphore had one permit more, or for a key of the other sort. */
  readonly mistaken: boolean
  readonly waits: boolean
  readonly delay: boolean
}

export const slots = 4
/** What is locked, and what has permits. */
export const locks: readonly string[] = ['a', 'b', 'c']
export const semaphores: readonly string[] = ['s', 't']
export const guards = 2

const slot = fc.nat(slots - 1)
const guard = fc.nat(guards - 1)
const some = (most: number) => fc.array(fc.nat(most), { minLength: 1, maxLength: 3 })
const rarely = fc.nat(11).map(n => n === 0)
const want: fc.Arbitrary<Wanted> = fc.record({
  kind: fc.constantFrom('exclusive', 'shared', 'shared', 'permits', 'permits', 'several', 'several'),
  key: fc.nat(2),
  more: fc.integer({ min: 1, max: 2 }),
  permits: fc.integer({ min: 1, max: 3 }),
  mistaken: rarely,
  waits: fc.nat(3).map(n => n > 0),
  delay: rarely,
})
const just = <T extends string>(value: T) => fc.constant(value)

const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: just('open'), slot }) },
  {
    weight: 14,
    arbitrary: fc.record({
      do: just('acquire'),
      slot,
      wants: fc.array(want, { minLength: 1, maxLength: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: just('repeat'), slot, requests: some(8) }) },
  { weight: 10, arbitrary: fc.record({ do: just('release'), grants: some(5) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: just('anew'), grant: fc.nat(3), requests: fc.integer({ min: 1, max: 2 }) }),
  },
  { weight: 4, arbitrary: fc.record({ do: just('cancel'), requests: some(8) }) },
  { weight: 2, arbitrary: fc.record({ do: just('downgrade'), grant: fc.nat(4) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: just('resize'),
      slot,
      key: fc.nat(1),
      capacity: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: just('tick'), slot, overAll: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: just('heartbeat'), slot }) },
  { weight: 1, arbitrary: fc.record({ do: just('settle'), slot }) },
  { weight: 2, arbitrary: fc.record({ do: just('expire'), slot }) },
  { weight: 1, arbitrary: fc.record({ do: just('close'), slot }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: just('force'), grant: fc.nat(4), whole: fc.boolean(), now: rarely }),
  },
  { weight: 1, arbitrary: fc.record({ do: just('due'), key: fc.nat(4) }) },
  { weight: 1, arbitrary: fc.record({ do: just('rested') }) },
  { weight: 2, arbitrary: fc.record({ do: just('pin'), guard, grant: fc.nat(4) }) },
  { weight: 2, arbitrary: fc.record({ do: just('unpin'), guard }) },
  { weight: 1, arbitrary: fc.record({ do: just('seize'), slot }) },
  { weight: 2, arbitrary: fc.record({ do: just('let go') }) },
)

export const commands: fc.Arbitrary<Command[]> = fc.array(command, {
  minLength: 1,
  maxLength: 60,
  size: 'max',
})
