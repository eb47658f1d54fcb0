import { electionPlants } from './elections.mjs'
import { modePlants } from './modes.mjs'
import { patch, slowed, statement } from './patch.mjs'

/** Who runs where a plant says nothing: all of the exclusive locks' actors, as ever. */
const copies = { guarded: 4, fenced: 3, tries: 4, turns: 4, alone: 1, 'by-hand': 2, sleeper: 1 }

const exclusivePlants = [
  {
    name: 'no-guard',
    says: 'assert_held refuses nothing',
    rules: ['guard', 'writes'],
    faults: [],
    sql: [patch('assert_held', 'if not found then', 'if false then')],
  },
  {
    name: 'token-not-compared',
    says: 'a pin asks whether the key is held, not under which token',
    rules: ['guard', 'writes'],
    faults: [],
    sql: [patch('pin', 'and pin.token between l.token + 0 and coalesce(l.token_to, l.token)', '')],
  },
  {
    name: 'no-fence',
    says: 'fence takes any token',
    rules: ['fence', 'writes'],
    faults: [],
    sql: [patch('fence', 'where f.token <= excluded.token', '')],
  },
  {
    name: 'newcomer-overtakes',
    says: 'a release deletes the row of a contended key, and whoever comes next inserts it',
    rules: ['in-line'],
    faults: [],
    sql: [
      patch(
        'release',
        'and l.session is not distinct from release.session and l.mode is null and not l.contended and not l.released',
        'and l.session is not distinct from release.session and l.mode is null and not l.released',
      ),
    ],
  },
  {
    name: 'abort-leaks-ticket',
    says: 'cancel leaves the ticket in line',
    rules: ['abort-clean'],
    faults: [],
    sql: [
      patch(
        'cancel',
        /delete from waiters w where w\.request = want\.request.*?;/,
        'perform from waiters w where w.request = want.request;',
      ),
    ],
  },
  {
    name: 'release-by-key',
    says: 'a release frees the key, whoever holds it under whatever token',
    rules: ['only-mine', 'exclusion', 'told-first'],
    faults: [],
    sql: [
      patch(
        'release',
        'where l.key = release.keys[1] and l.token + 0 = release.tokens[1]\n                        and l.session is not distinct from release.session and l.mode is null and not l.contended',
        'where l.key = release.keys[1] and l.mode is null and not l.contended',
      ),
    ],
  },
  {
    name: 'number-before-wait',
    says: 'a number drawn before the wait for the row stands',
    rules: ['tokens'],
    faults: [],
    // Somebody must take the key and let go while another still waits for it.
    copies: { 'by-hand': 6 },
    sql: [
      slowed('before insert on fencepost.locks', 'true'),
      patch(
        'acquire',
        /if pg_sequence_last_value\('fencing'\) - drawn is distinct from cardinality\(keys\)\s+or base <> \(select c.base from cluster c\) then/,
        'if false then',
      ),
    ],
  },
  {
    name: 'base-kept',
    says: 'a new incarnation keeps the token base',
    rules: ['base'],
    faults: ['server-restarted-fast'],
    sql: [patch('new_incarnation', 'base = raised', 'base = c.base')],
  },
  {
    name: 'grace-off',
    says: 'a new incarnation leaves the sessions their old time to live',
    rules: ['grace'],
    faults: ['server-restarted-fast', 'server-crashed'],
    sql: [patch('grace', 'update sessions set expires_at = clock_timestamp() + ttl where died is null;', '')],
  },
  {
    name: 'no-quarantine',
    says: 'newcomers are let in at once where commits may be lost',
    rules: ['exclusion', 'linearizable'],
    faults: ['promotion-with-losses'],
    pair: true,
    // Somebody must hold what is lost for longer than the promotion takes.
    copies: { keeper: 4, tries: 1 },
    seconds: 55,
    sql: [
      patch(
        'new_incarnation',
        'quarantined_until = clock_timestamp() + c.max_ttl',
        'quarantined_until = null',
      ),
    ],
  },
  {
    name: 'canary-ignored',
    says: 'a crash recovery under the same postmaster goes unnoticed',
    rules: ['incarnation'],
    faults: ['backend-killed'],
    sql: [
      async cluster => {
        const [view] = await cluster.query("select pg_get_viewdef('fencepost.here'::regclass) as text")
        const changed = view.text.replace(
          /\(boot = \( SELECT k\.boot\s+FROM fencepost\.canary k\)\) AND /,
          '',
        )
        if (changed === view.text)
          throw new Error(`plant: the view here no longer asks the canary: ${view.text}`)
        await cluster.query(
          `set search_path = fencepost; create or replace view fencepost.here as ${changed}`,
        )
      },
    ],
  },
  {
    name: 'trust-from-reply',
    says: 'trust is counted from the answer of a renewal, not from its sending',
    rules: ['told-first', 'exclusion'],
    faults: ['late-reply-then-dark'],
    // Whoever is cut off is to hold a key that others want, which is not so each time.
    seconds: 55,
    client: [
      {
        file: 'session/session.js',
        find: 'this.#renewed(sent);\n        this.#host.onRenewed',
        replace: 'this.#renewed(now());\n        this.#host.onRenewed',
      },
    ],
  },
  {
    name: 'clock-step-ignored',
    says: 'a call whose clock is in doubt judges all the same',
    rules: ['told-first', 'exclusion', 'grace'],
    faults: ['server-clock-stepped'],
    copies: { 'by-hand': 4, fenced: 3 },
    sql: [patch('judged_at', 'if is_doubtful(seen, reading) then return null; end if;', '')],
  },
  {
    name: 'renewal-revives',
    says: 'a renewal that comes too late is taken',
    rules: ['dead-stays-dead', 'told-first', 'exclusion'],
    faults: ['held-then-delivered', 'client-stopped'],
    sql: [
      patch(
        'heartbeat',
        /where s\.id = heartbeat\.session and s\.died is null\s+and \(.*?\);/s,
        'where s.id = heartbeat.session;',
      ),
    ],
  },
  {
    name: 'expiry-by-unlocked-read',
    says: 'a session is taken for dead by a look at its row, and no death is stored',
    rules: ['only-mine', 'told-first'],
    faults: ['client-stopped', 'client-killed', 'black-hole'],
    sql: [
      patch('is_alive', 'and s.died is null', 'and s.died is null and s.expires_at > clock_timestamp()'),
      patch('bury', /update sessions s set died.*?where s\.id = bury\.session;/s, 'perform 1;'),
    ],
  },
  {
    name: 'handover-without-key-update',
    says: 'the unique index over (session, token) is a plain one, so a change of holder is no key update',
    rules: ['guard', 'writes'],
    faults: [],
    copies: { guarded: 3 },
    seconds: 50,
    sql: [
      // A snapshot from before the row was flagged, and another guard that begins and ends between the two steps of a release.
      patch(
        'release',
        'locked := lock_rows(rest);',
        'locked := lock_rows(rest); perform pg_sleep(random() * 0.02);',
      ),
      statement(`alter table fencepost.locks drop constraint locks_session_token_key;
                 create index on fencepost.locks (session, token)`),
    ],
  },
  {
    name: 'connection-held',
    says: 'a client that is closed leaves a connection open',
    rules: ['leftovers'],
    faults: [],
    // It is seen at the end.
    seconds: 5,
    client: [
      {
        file: 'database/roads.js',
        find: 'this.#lanes.map(lane => lane.close())',
        replace: 'this.#lanes.slice(1).map(lane => lane.close())',
      },
    ],
  },
  {
    name: 'passed-on-though-known',
    says: 'a key is passed on inside the process though the token of its handle is known, or a transaction has pinned it',
    rules: ['guard', 'writes'],
    faults: [],
    copies: { guarded: 8 },
    client: [{ file: 'lock/lock.js', find: 'return !this.#isExposed', replace: 'return true' }],
  },
  {
    name: 'run-ends-with-its-first',
    says: 'the cancel of who was first in a run takes the key from who has its turn by then',
    rules: ['only-mine', 'told-first', 'exclusion'],
    faults: [],
    copies: { tries: 10 },
    sql: [
      patch(
        'cancel',
        'elsif runs and (held.request = want.request or held.request is null) then',
        'elsif false then',
      ),
    ],
  },
  {
    name: 'asked-anew-past-the-line',
    says: 'a process that gives a key back and asks for it anew gets it, whoever is in line',
    rules: ['in-line'],
    faults: [],
    copies: { turns: 8 },
    sql: [
      patch(
        'release_and_acquire',
        'and (not held.contended or not exists (select from waiters w where w.key = held.key and w.ticket > coalesce(held.served, 0)))',
        '',
      ),
    ],
    // Where others are in line it asks in a call of its own.
    client: [{ file: 'lock/returner.js', find: '!this.#shared.has(key)', replace: 'true' }],
  },
  {
    name: 'lease-not-asserted',
    says: 'a tick is taken and ended by whoever has once held the lease',
    rules: ['ticks'],
    faults: ['client-stopped'],
    copies: { schedule: 1 },
    seconds: 55,
    sql: [
      patch('take_tick', /perform assert_held\(.*?\);/, 'perform 1;'),
      patch('end_tick', /perform assert_held\(.*?\);/, 'perform 1;'),
    ],
    // It would not even ask, by its own clock.
    client: [{ file: 'schedule/runner.js', find: " && lock.state !== 'lost'", replace: '' }],
  },
  {
    name: 'wake-up-lost',
    says: 'a hand-over forgets who else is in line, and nobody mends that',
    rules: ['in-line', 'forgotten', 'leftovers'],
    faults: [],
    sql: [
      patch('hand_over', 'contended = behind.key is not null', 'contended = false'),
      patch('mend_lines', /insert into locks.*?on conflict do nothing;/s, 'perform from waiters limit 0;'),
      patch(
        'look',
        "when t.ticket is null then 'again' when t.follows then 'follows' else 'queued' end",
        "when true then 'queued' end",
      ),
    ],
  },
]

/**
 * What the oracle is tested with: each takes one protection out, by a change of the live SQL or of the client as it is
 * loaded. `rules` are those that are to find it; `faults`, what has to happen for it to matter; `copies`, which actors
 * run and how many of each.
 */
export const plants = [
  ...exclusivePlants.map(plant => ({ copies, ...plant })),
  ...modePlants,
  ...electionPlants,
]
