import { guards } from './programs/guards.ts'
import { incarnations } from './programs/incarnations.ts'
import { lines } from './programs/lines.ts'
import { explorations } from './suite.ts'

explorations({
  programs: [...lines, ...guards, ...incarnations],
  functions: [
    'acquire',
    'enqueue',
    'cancel',
    'take',
    'lock_rows',
    'raise_generation',
    'pin',
    'enter',
    'new_incarnation',
  ],
})
