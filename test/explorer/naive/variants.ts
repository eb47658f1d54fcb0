import { acquire, at, cancel, guard, heartbeat, release, tick, token } from '../calls.ts'
import type { Program } from '../program.ts'
import { inTurn, letGo, takeAndRelease } from '../programs/scripts.ts'
import type { Variant } from './variant.ts'

const held = [acquire('S1', [at('k', 'r11')])]
const queued = [...held, acquire('S2', [at('k', 'r21')])]
const sessions = { S1: 60, S2: 60, S3: 60 }
const expiring = { S1: 10, S2: 60, S3: 60 }

const newcomers: Program = {
  name: 'two take a free key and let go',
  sessions,
  quiet: ['sessions'],
  actors: [
    { name: 'A', script: () => takeAndRelease('S1', 'k', 'r11') },
    { name: 'B', script: () => takeAndRelease('S2', 'k', 'r21') },
  ],
}

const enqueues: Program = {
  name: 'a release meets two enqueues',
  sessions,
  quiet: ['sessions'],
  before: held,
  actors: [
    { name: 'A', script: () => letGo('S1', token('k', 101)) },
    { name: 'B', script: () => inTurn(acquire('S2', [at('k', 'r21')])) },
    { name: 'C', script: () => inTurn(acquire('S3', [at('k', 'r31')])) },
  ],
}

const cancels: Program = {
  name: 'a hand-over meets the cancel of its ticket',
  sessions,
  quiet: ['sessions'],
  before: queued,
  actors: [
    { name: 'A', script: () => letGo('S1', token('k', 101)) },
    { name: 'B', script: () => inTurn(cancel('S2', at('k', 'r21'))) },
  ],
}

const lastMoment: Program = {
  name: 'a heartbeat at the last moment meets a newcomer',
  sessions: expiring,
  clock: [2],
  before: [...held, 9],
  actors: [
    { name: 'A', script: () => inTurn(heartbeat('S1')) },
    { name: 'B', script: () => inTurn(acquire('S2', [at('k', 'r21')])) },
  ],
}

const fourGuards: Program = {
  name: 'two guards meet an enqueue and a release',
  sessions,
  key: 'k',
  quiet: ['sessions'],
  before: held,
  actors: [
    { name: 'B', script: () => inTurn(acquire('S2', [at('k', 'r21')])), whole: true },
    { name: 'A', script: () => letGo('S1', token('k', 101)) },
    { name: 'another guard', script: () => inTurn(guard(token('k', 101))), whole: true },
    { name: 'the guard', script: () => inTurn(guard(token('k', 101), 'repeatable read')) },
  ],
}

const ownSession: Program = {
  name: 'an acquire meets the reaping of its own session',
  sessions: expiring,
  clock: [2],
  before: [9],
  actors: [
    { name: 'A', script: () => inTurn(acquire('S1', [at('k', 'r11')])) },
    { name: 'B', script: () => inTurn(tick('S2')) },
  ],
}

const headDies: Program = {
  name: 'a hand-over meets the reaping of the head of the line',
  sessions: { S1: 60, S2: 10, S3: 60 },
  clock: [2],
  before: [...queued, 9],
  actors: [
    { name: 'A', script: () => letGo('S1', token('k', 101)) },
    { name: 'B', script: () => inTurn(tick('S3')) },
  ],
}

const twoKeys: Program = {
  name: 'a release of two keys meets an enqueue for both',
  sessions,
  quiet: ['sessions'],
  before: [acquire('S1', [at('a', 'r11'), at('b', 'r12')])],
  actors: [
    { name: 'A', script: () => letGo('S1', token('a', 101), token('b', 102)) },
    { name: 'B', script: () => inTurn(acquire('S2', [at('a', 'r21'), at('b', 'r22')])) },
  ],
}

/** The five that TRAPS names, and more of the same kind: each protection is there for a schedule that is found here. */
export const variants: readonly Variant[] = [
  {
    name: 'a number drawn before the wait is kept without the proof',
    edits: [
      {
        function: 'acquire',
        from: "if pg_sequence_last_value('fencing') - drawn is distinct from cardinality(keys)",
        to: 'if false',
      },
    ],
    program: newcomers,
    depth: 1,
    finds: /tokens of k do not rise: 101 was granted after 102/,
  },
  {
    name: 'hand-over without the unique index over session and token',
    edits: [],
    ddl: 'alter table locks drop constraint locks_session_token_key',
    program: fourGuards,
    depth: 2,
    finds: /a guard of k passed under 101, and S2 holds it under \d+/,
  },
  {
    name: 'expiry judged by an unlocked read',
    edits: [{ function: 'bury', from: 'for update skip locked;', to: ';' }],
    program: lastMoment,
    depth: 2,
    finds: /S1/,
  },
  {
    name: 'a ticket drawn before the row lock',
    edits: [
      {
        function: 'enqueue',
        from: 'locked := lock_rows(',
        to: `insert into waiters (key, session, request) select u.key, enqueue.session, u.request
               from unnest(enqueue.keys, enqueue.requests) u(key, request) on conflict (request, key) do nothing;
             locked := lock_rows(`,
      },
    ],
    program: enqueues,
    depth: 1,
    finds: /S\d waits for k, which has (no row|a row that is not contended)|a later one was served before it/,
  },
  {
    name: 'a flag that is read, instead of a row that is locked, before the ticket',
    edits: [
      {
        function: 'enqueue',
        from: 'locked := lock_rows((select array_agg(u.key)',
        to: 'locked := array(select l.key from locks l where l.key = any (enqueue.keys)); perform ((select array_agg(u.key)',
      },
      {
        function: 'enqueue',
        from: 'update locks l set contended = true where l.key = want.key and not l.contended;',
        to: 'if not held.contended then update locks l set contended = true where l.key = want.key and not l.contended; end if;',
      },
    ],
    program: enqueues,
    depth: 1,
    finds: /S\d waits for k, which has (no row|a row that is not contended)/,
  },
  {
    name: 'cancel in one statement',
    edits: [
      { function: 'cancel', from: 'locked := lock_rows(cancel.keys);', to: "locked := '{}';" },
      {
        function: 'cancel',
        from: 'delete from waiters w where w.request = want.request and w.key = want.key and w.session = cancel.session;',
        to: `with ticket as (
               delete from waiters w where w.request = want.request and w.key = want.key and w.session = cancel.session returning w.ticket),
             given_back as (
               delete from locks l where l.key = want.key and l.request = want.request and l.session = cancel.session returning l.token)
             select 'cancelled' into result.outcome from (select ticket from ticket union all select token from given_back) gone limit 1;`,
      },
      { function: 'cancel', from: 'if not want.there then', to: 'if false then' },
    ],
    program: cancels,
    depth: 1,
    finds: /S2 holds k by r21, a request that it has given up: a ghost/,
  },
  {
    name: 'cancel that skips a ticket which is locked',
    edits: [
      { function: 'cancel', from: 'locked := lock_rows(cancel.keys);', to: "locked := '{}';" },
      {
        function: 'cancel',
        from: 'delete from waiters w where w.request = want.request and w.key = want.key and w.session = cancel.session;',
        to: `delete from waiters w where w.ticket = (
               select x.ticket from waiters x where x.request = want.request and x.key = want.key for update skip locked);`,
      },
    ],
    program: cancels,
    depth: 1,
    finds: /r21, a request that it has given up: a ghost|r21, which it has given up/,
  },
  {
    name: 'hand-over to a ticket that was cancelled just now',
    edits: [
      { function: 'cancel', from: 'locked := lock_rows(cancel.keys);', to: "locked := '{}';" },
      {
        function: 'hand_over',
        from: 'delete from waiters w where w.ticket = head.ticket;\n    continue when not found;',
        to: 'delete from waiters w where w.ticket = head.ticket;',
      },
    ],
    program: cancels,
    depth: 1,
    finds: /S2 holds k by r21, a request that it has given up: a ghost/,
  },
  {
    name: 'an acquire that does not lock its own session',
    edits: [{ function: 'acquire', from: 'for key share of s;', to: ';' }],
    program: ownSession,
    depth: 2,
    finds: /S1/,
  },
  {
    name: "a hand-over that does not lock the head's session",
    edits: [{ function: 'hand_over', from: 'for key share skip locked;', to: ';' }],
    program: headDies,
    depth: 2,
    finds: /S2/,
  },
  {
    name: 'a release that waits for one key while it holds another',
    edits: [{ function: 'release', from: "if gone = '{}' then\n    locked", to: 'if true then\n    locked' }],
    program: twoKeys,
    depth: 2,
    finds: /40P01/,
  },
  {
    name: 'an insert tried again in the same transaction',
    edits: [
      {
        function: 'enqueue',
        from: "if not found then result.outcome := 'again';",
        to: `if not found then
               insert into locks (key, session, request, token) values (want.key, enqueue.session, want.request, nextval('fencing'))
                 on conflict do nothing;
               result.outcome := case when found then 'granted' else 'again' end;
               result.token := (select l.token from locks l where l.request = want.request);`,
      },
    ],
    program: {
      ...twoKeys,
      name: 'two take keys that are let go meanwhile',
      actors: [
        { name: 'A', script: () => letGo('S1', token('a', 101)) },
        { name: 'B', script: () => inTurn(acquire('S2', [at('a', 'r21'), at('c', 'r22')])) },
        { name: 'C', script: () => inTurn(acquire('S3', [at('a', 'r31'), at('c', 'r32')])) },
      ],
    },
    depth: 2,
    finds: /40P01/,
  },
  {
    name: 'a release that compares no token',
    edits: [
      {
        function: 'release',
        from: 'l.key = pair.key and l.token = pair.token and l.session = release.session',
        to: 'l.key = pair.key',
      },
    ],
    program: {
      name: 'a holder lets go twice while another waits',
      sessions,
      quiet: ['sessions'],
      before: queued,
      actors: [
        { name: 'A', script: () => inTurn(release('S1', token('k', 101))) },
        { name: 'A again', script: () => inTurn(release('S1', token('k', 101))) },
      ],
    },
    depth: 1,
    finds: /k was taken from S2, who is alive and has not let go/,
  },
]
