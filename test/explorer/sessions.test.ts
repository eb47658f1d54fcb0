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
  // Only where a standby is waited for: synchronous.test.ts. What several hold, or who wants several keys, is in no program here.
  unreached: [
    'look: ours',
    'look: own row found',
    'look: update locks',
    'expires_in: ends := (select min',
    'tick: wide :=',
    'tick: perform from sessions s where s.id = tick.session',
  ],
})
