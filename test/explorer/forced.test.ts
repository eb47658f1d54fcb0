import { forced } from './programs/forced.ts'
import { explorations } from './suite.ts'

explorations({ programs: forced, functions: ['force_release'] })
