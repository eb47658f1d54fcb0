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
  // Runs, and what more than one holds or wants, have programs of their own.
  unreached: [
    'acquire: return query select * from acquire_on_terms',
    'enqueue: undone :=',
    "enqueue: return query select w.request, case l.mode when 'permits'",
    'enqueue: torn :=',
    'enqueue: behind :=',
    'enqueue: update locks l set released',
    'enqueue: strange :=',
    'enqueue: return query with repeated',
    'enqueue: told :=',
    'enqueue: delete from waiters d',
    'cancel: select * into share',
    'cancel: update locks l set request = null',
    'release: delete from waiters',
    'new_incarnation: if seen >',
    'new_incarnation: update cluster c set quarantined_until',
    'new_incarnation: raised :=',
    'pin: return next',
  ],
})
