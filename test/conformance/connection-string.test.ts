import { lockConformance } from './lock-conformance.ts'
import { ways } from './ways.ts'

lockConformance('a connection string', ways['a connection string'])
