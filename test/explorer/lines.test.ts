import { batches } from './programs/batches.ts'
import { guards } from './programs/guards.ts'
import { incarnations } from './programs/incarnations.ts'
import { lines } from './programs/lines.ts'
import { explorations } from './suite.ts'

explorations({
  programs: [...lines, ...guards, ...batches, ...incarnations],
  functions: [
    'acquire',
    'enqueue',
    'release',
    'cancel',
    'take',
    'lock_rows',
    'raise_generation',
    'pin',
    'enter',
    'current_base',
    'new_incarnation',
    'grace',
  ],
  // They look at what no program here changes: the clock while an incarnation begins, the cluster row while a pin does.
  // The last two are for runs, which have programs of their own.
  unreached: [
    'cancel: update locks l set request = null',
    'release: delete from waiters',
    'new_incarnation: if seen >',
    'new_incarnation: raised :=',
    'pin: return next',
  ],
})
