import { readers } from './programs/readers.ts'
import { explorations } from './suite.ts'

explorations({
  programs: readers,
  functions: ['serve', 'end_holders', 'reap_holders', 'release_holders', 'open_head', 'downgrade', 'resize'],
  // Of runs, of a downgrade that is repeated, of the dead whom a tick has not found before, and of a head that nobody was let in to.
  unreached: [
    'downgrade: return query update holders',
    'downgrade: delete from waiters',
    'serve: delete from waiters',
    'serve: here.token :=',
    'release_holders: delete from waiters',
  ],
})
