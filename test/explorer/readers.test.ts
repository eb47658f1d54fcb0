import { readers } from './programs/readers.ts'
import { explorations } from './suite.ts'

explorations({
  programs: readers,
  functions: ['serve', 'end_holders', 'reap_holders', 'release_holders', 'open_head', 'downgrade', 'resize'],
})
