import { cancels, enqueues, fourGuards, lastMoment, newcomers } from './programs.ts'
import type { Variant } from './variant.ts'

/** The ways in which such a protocol is written first: each looks right, and each has a schedule that breaks it. */
export const naive: readonly Variant[] = [
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
    depth: 1,
    finds: /S1 trusts that it holds k, and its death is stored/,
  },
  {
    name: 'a ticket drawn before the row lock',
    edits: [
      {
        function: 'enqueue',
        from: 'locked := lock_rows(',
        to: `insert into waiters (key, session, request) select w.key, enqueue.session, w.request
               from unnest(enqueue.wants) w on conflict (request, key) do nothing;
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
        from: 'locked := lock_rows(array(select w.key from unnest(wants) w));',
        to: 'locked := array(select l.key from locks l where l.key = any (array(select w.key from unnest(wants) w)));',
      },
      {
        function: 'enqueue',
        from: "update locks l set contended = true, served = pg_sequence_last_value('waiters_ticket_seq') where l.key = place.key and not l.contended;",
        to: "if not held.contended then update locks l set contended = true, served = pg_sequence_last_value('waiters_ticket_seq') where l.key = place.key and not l.contended; end if;",
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
        from: 'delete from waiters w where w.request = want.request and w.key is not distinct from want.key and w.session is not distinct from cancel.session;',
        to: `with ticket as (
               delete from waiters w where w.request = want.request and w.key is not distinct from want.key and w.session is not distinct from cancel.session returning w.ticket),
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
]
