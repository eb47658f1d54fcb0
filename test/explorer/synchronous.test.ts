import { synchronous, withStandby } from './programs/synchronous.ts'
import { explorations } from './suite.ts'

explorations({ programs: synchronous, functions: ['look'], edits: withStandby })
