import { runs } from './programs/runs.ts'
import { explorations } from './suite.ts'

explorations({ programs: runs, functions: ['begin_run', 'members', 'tell'] })
