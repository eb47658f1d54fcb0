import fc from 'fast-check'

/**
 * One step, as data, so that a failing run can be printed, shrunk and repeated. Numbers choose among what there is at
 * that moment: the n-th slot's session, the n-th latest request or grant.
 */
export type Command =
  | { readonly do: 'open'; readonly slot: number; readonly same: boolean }
  | {
      readonly do: 'acquire'
      readonly slot: number
      readonly wants: readonly Wanted[]
      readonly stale: boolean
    }
  | {
      readonly do: 'repeat'
      readonly slot: number
      readonly requests: readonly number[]
      readonly waits: boolean
    }
  | {
      readonly do: 'release'
      readonly slot: number
      readonly grants: readonly number[]
      readonly by: 'owner' | 'slot'
      readonly swap: boolean
    }
  | {
      readonly do: 'cancel'
      readonly slot: number
      readonly requests: readonly number[]
      readonly by: 'owner' | 'slot'
    }
  | { readonly do: 'tick'; readonly slot: number; readonly overAll: boolean; readonly waiting: boolean }
  | { readonly do: 'heartbeat' | 'settle' | 'expire' | 'close'; readonly slot: number }
  | { readonly do: 'force'; readonly grant: number; readonly now: boolean }
  | { readonly do: 'due'; readonly key: number }
  | { readonly do: 'raise'; readonly slot: number; readonly stale: boolean }
  | {
      readonly do: 'anew'
      readonly grant: number
      readonly requests: number
      readonly repeats: boolean
      readonly stale: boolean
    }
  | { readonly do: 'turn'; readonly grant: number }
  | { readonly do: 'pin'; readonly guard: number; readonly grant: number }
  | { readonly do: 'unpin'; readonly guard: number; readonly commit: boolean }

interface Wanted {
  readonly key: number
  readonly waits: boolean
}

export const slots = 4
export const keys: readonly string[] = ['a', 'b', 'c']
export const guards = 2

const slot = fc.nat(slots - 1)
const guard = fc.nat(guards - 1)
const some = (most: number) => fc.array(fc.nat(most), { minLength: 1, maxLength: 3 })
const mostly = fc.nat(7).map(n => n > 0)
const rarely = fc.nat(7).map(n => n === 0)
const by = fc.nat(4).map(n => (n === 0 ? ('slot' as const) : ('owner' as const)))
const want = fc.record({ key: fc.nat(keys.length - 1), waits: fc.nat(3).map(n => n > 0) })
const just = <T extends string>(value: T) => fc.constant(value)

const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: just('open'), slot, same: rarely }) },
  {
    weight: 9,
    arbitrary: fc.record({
      do: just('acquire'),
      slot,
      wants: fc.array(want, { minLength: 1, maxLength: 4 }),
      stale: rarely,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: just('repeat'), slot, requests: some(8), waits: mostly }) },
  { weight: 8, arbitrary: fc.record({ do: just('release'), slot, grants: some(5), by, swap: rarely }) },
  { weight: 4, arbitrary: fc.record({ do: just('cancel'), slot, requests: some(8), by }) },
  { weight: 3, arbitrary: fc.record({ do: just('tick'), slot, overAll: fc.boolean(), waiting: mostly }) },
  { weight: 1, arbitrary: fc.record({ do: just('heartbeat'), slot }) },
  { weight: 1, arbitrary: fc.record({ do: just('settle'), slot }) },
  { weight: 2, arbitrary: fc.record({ do: just('expire'), slot }) },
  { weight: 1, arbitrary: fc.record({ do: just('close'), slot }) },
  { weight: 2, arbitrary: fc.record({ do: just('force'), grant: fc.nat(3), now: rarely }) },
  { weight: 1, arbitrary: fc.record({ do: just('due'), key: fc.nat(keys.length - 1) }) },
  { weight: 1, arbitrary: fc.record({ do: just('raise'), slot, stale: rarely }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: just('anew'),
      grant: fc.nat(3),
      requests: fc.integer({ min: 1, max: 3 }),
      repeats: rarely,
      stale: rarely,
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: just('turn'), grant: fc.nat(3) }) },
  { weight: 4, arbitrary: fc.record({ do: just('pin'), guard, grant: fc.nat(3) }) },
  { weight: 3, arbitrary: fc.record({ do: just('unpin'), guard, commit: fc.boolean() }) },
)

export const commands: fc.Arbitrary<Command[]> = fc.array(command, {
  minLength: 1,
  maxLength: 60,
  size: 'max',
})
