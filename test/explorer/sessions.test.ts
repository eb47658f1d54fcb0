import { guards } from './programs/guards.ts'
import { sessions } from './programs/sessions.ts'
import { explorations } from './suite.ts'

explorations(
  [...sessions, ...guards],
  [
    'tick',
    'look',
    'mend_lines',
    'clear_away',
    'close_session',
    'heartbeat',
    'is_alive',
    'bury',
    'expires_in',
    'pin',
    'enter',
    'current_base',
    'new_incarnation',
    'grace',
  ],
  [],
)
