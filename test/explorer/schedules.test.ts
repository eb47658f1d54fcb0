import { once, ticking } from './programs/schedules.ts'
import { explorations } from './suite.ts'

explorations({
  programs: [...ticking, ...once],
  functions: [
    'announce_schedule',
    'rule_schedule',
    'leave_schedule',
    'take_tick',
    'record_ticks',
    'end_tick',
    'record_once',
  ],
  // No program has a clock that moves meanwhile.
  unreached: ['leave_schedule: perform rule_schedule'],
})
