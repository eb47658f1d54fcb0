import { batches } from './programs/batches.ts'
import { lines } from './programs/lines.ts'
import { explorations } from './suite.ts'

explorations(
  [...lines, ...batches],
  ['acquire', 'enqueue', 'release', 'cancel', 'hand_over', 'take', 'lock_rows', 'raise_generation'],
  [],
)
