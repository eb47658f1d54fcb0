import { lockConformance } from './lock-conformance.ts'
import { ways } from './ways.ts'

lockConformance('a query function', ways['a query function'])
