import { sessions } from './programs/sessions.ts'
import { explorations } from './suite.ts'

explorations({
  programs: sessions,
  functions: [
    'tick',
    'look',
    'mend_lines',
    'clear_away',
    'close_session',
    'heartbeat',
    'is_alive',
    'bury',
    'expires_in',
    'hand_over',
  ],
  // Only where a standby is waited for: synchronous.test.ts.
  unreached: ['look: ours', 'look: own row found', 'look: update locks'],
})
