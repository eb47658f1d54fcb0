import { wide } from './programs/several.ts'
import { explorations } from './suite.ts'

explorations({
  programs: wide,
  functions: ['acquire_on_terms', 'settle_wide', 'take_all', 'close_line'],
  // In a quarantine.
  unreached: [
    'acquire_on_terms: if held_up',
    "acquire_on_terms: return query select w.request, 'busy'",
    'acquire_on_terms: refused :=',
  ],
})
