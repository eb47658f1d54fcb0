import { runs } from './programs/runs.ts'
import { explorations } from './suite.ts'

explorations({
  programs: runs,
  functions: ['begin_run', 'members', 'tell', 'cancel', 'release', 'release_and_acquire', 'turn'],
  // Of keys that nobody waits for, of batches, and of rows that were repaired.
  unreached: [
    'cancel: perform from locks',
    'release: row found',
    'release: row of a batch found',
    'release: row of the rest found',
    'release: with mine',
    'release: locked := array(',
    'turn: delete from waiters w where w.request',
    'turn: update holders',
  ],
})
