import { patch, slowed } from './patch.mjs'

/** Of shared locks, permits and several keys: as those of `index.mjs`. */
export const modePlants = [
  {
    name: 'writer-served-as-reader',
    says: 'who asked for an exclusive lock right behind readers is granted a shared one along with them',
    rules: ['exclusion', 'guard', 'writes'],
    faults: [],
    copies: { 'readers-writers': 8 },
    sql: [patch('serve', 'bool_and(w.mode is not distinct from here.mode)', 'bool_and(w.mode = here.mode)')],
  },
  {
    name: 'reader-passes-writer',
    says: 'a reader is granted beside readers, whoever is before it in line',
    rules: ['in-line'],
    faults: [],
    copies: { 'readers-writers': 8 },
    sql: [
      patch(
        'serve',
        /(select \* into first from waiters w where w\.key = serve\.key and w\.ticket > coalesce\(here\.served, 0\))( order by w\.ticket limit 1;)/,
        `select * into first from waiters w where w.key = serve.key and w.ticket > coalesce(here.served, 0)
           order by w.mode is distinct from here.mode or holding = 0, w.ticket limit 1;`,
      ),
    ],
  },
  {
    name: 'heavy-passed',
    says: 'permits go to the first in line for whom there are enough, past one who wants more',
    rules: ['in-line'],
    faults: [],
    copies: { permits: 8 },
    sql: [
      patch(
        'serve',
        /(select \* into first from waiters w where w\.key = serve\.key and w\.ticket > coalesce\(here\.served, 0\))( order by w\.ticket limit 1;)/,
        `select * into first from waiters w where w.key = serve.key and w.ticket > coalesce(here.served, 0)
           order by used + w.permits > here.capacity, w.ticket limit 1;`,
      ),
    ],
  },
  {
    name: 'heads-not-locked',
    says: 'holders are counted without the lock of their head',
    rules: ['exclusion', 'served'],
    faults: [],
    copies: { permits: 8 },
    sql: [
      slowed('before insert on fencepost.holders', 'true'),
      patch(
        'lock_rows',
        /select l\.key from locks l where l\.key = any \(keys\) order by l\.key for no key update/,
        `select o.key from (select l.key from locks l where l.key = any (keys) and l.mode is null
                             order by l.key for no key update) o
         union all select l.key from locks l where l.key = any (keys) and l.mode is not null`,
      ),
    ],
  },
  {
    name: 'pinned-not-counted',
    says: 'a holder that has let go, and is pinned by a guard that is still open, is counted no more',
    rules: ['exclusion'],
    faults: [],
    copies: { permits: 8 },
    sql: [
      patch(
        'serve',
        'from holders h where h.key = serve.key and h.token >= coalesce(here.oldest, 0);',
        'from holders h where h.key = serve.key and h.token >= coalesce(here.oldest, 0) and not h.released;',
      ),
    ],
  },
  {
    name: 'holder-not-pinned',
    says: 'a guard of a shared lock or of permits pins nothing',
    rules: ['guard'],
    faults: [],
    copies: { permits: 8 },
    sql: [
      patch(
        'pin',
        /(where h\.key = pin\.key and h\.token = pin\.token and not h\.released and h\.forced_until is null) for key share/,
        'where h.key = pin.key and h.token = pin.token and not h.released and h.forced_until is null',
      ),
    ],
  },
  {
    name: 'one-key-unchecked',
    says: 'several keys are taken without a look at the first of them',
    rules: ['exclusion', 'told-first', 'only-mine', 'in-line', 'guard'],
    faults: [],
    copies: { several: 8 },
    sql: [
      patch(
        'take_all',
        'select from unnest(take_all.keys) u(key)',
        'select from unnest(take_all.keys[2:]) u(key)',
      ),
    ],
  },
  {
    name: 'closed-for-nobody',
    says: 'who wanted several keys and gives up leaves the lines closed that it had closed',
    rules: ['served'],
    faults: [],
    copies: { several: 3 },
    sql: [
      patch(
        'cancel',
        'elsif held.released or held.session is null and held.key is not null then',
        'elsif held.released then',
      ),
    ],
  },
  {
    name: 'level-of-its-own',
    says: 'a reader’s fence is raised by its own token, past the readers beside it',
    rules: ['fence', 'recorded', 'levels'],
    faults: [],
    copies: { 'readers-writers': 8 },
    client: [{ file: 'lock/lock.js', find: 'granted.level ?? granted.token', replace: 'granted.token' }],
  },
]
