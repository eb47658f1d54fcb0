import { passing } from './programs/passing.ts'
import { explorations } from './suite.ts'

explorations({
  programs: passing,
  functions: ['let_follow', 'turn', 'release_holders'],
  // Of runs.
  unreached: ['turn: delete from waiters w where w.key', 'turn: update locks'],
})
