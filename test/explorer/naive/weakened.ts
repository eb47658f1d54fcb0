import { acquire, at, release, token } from '../calls.ts'
import type { Program } from '../program.ts'
import { passing } from '../programs/passing.ts'
import { readers } from '../programs/readers.ts'
import { runs } from '../programs/runs.ts'
import { once, ticking } from '../programs/schedules.ts'
import { inTurn, letGo } from '../programs/scripts.ts'
import { cancels, headDies, ownSession, queued, sessions, taken, twoKeys } from './programs.ts'
import type { Variant } from './variant.ts'

/** The protocol with one more of its rules taken out. */
export const weakened: readonly Variant[] = [
  {
    name: 'cancel that skips a ticket which is locked',
    edits: [
      { function: 'cancel', from: 'locked := lock_rows(cancel.keys);', to: "locked := '{}';" },
      {
        function: 'cancel',
        from: 'delete from waiters w where w.request = want.request and w.key is not distinct from want.key and w.session is not distinct from cancel.session;',
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
        from: 'delete from waiters w where w.key = head.key and w.ticket = head.ticket;\n    continue when not found;',
        to: 'delete from waiters w where w.key = head.key and w.ticket = head.ticket;',
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
    depth: 1,
    finds: /k was granted to S1, whose death is stored/,
  },
  {
    name: "a hand-over that does not lock the head's session",
    edits: [{ function: 'hand_over', from: 'for key share skip locked;', to: ';' }],
    program: headDies,
    depth: 1,
    finds: /k was granted to S2, whose death is stored/,
  },
  {
    name: 'a key taken by hand without a look at the renewal in flight',
    edits: [
      {
        function: 'force_release',
        from: 'where s.id = named.session for no key update;',
        to: 'where s.id = named.session;',
      },
    ],
    program: taken,
    depth: 1,
    finds: /S1 believes that it holds k under 101, and S2 has it/,
  },
  {
    name: 'a renewal that says what is marked, and not what has moved on meanwhile',
    edits: [
      {
        function: 'heartbeat',
        from: "and e.what = 'forced' and s.id = e.session",
        to: 'and false and s.id = e.session',
      },
    ],
    program: taken,
    depth: 1,
    finds: /S1 believes that it holds k under 101, and S2 has it/,
  },
  {
    name: 'a release that waits for one key while it holds another',
    edits: [{ function: 'release', from: 'if taken = 0 then\n    locked', to: 'if true then\n    locked' }],
    program: twoKeys,
    depth: 1,
    finds: /40P01/,
  },
  {
    name: 'an insert tried again in the same transaction',
    edits: [
      {
        function: 'enqueue',
        from: 'where l.key = place.key and place.there; if not found then',
        to: `where l.key = place.key and place.there;
             if not found then
               insert into locks (key, session, request, token)
                 values (place.key, enqueue.session, (ours[1]).request, nextval('fencing')) on conflict do nothing;
               if found then
                 return next row((ours[1]).request, 'granted', (select l.token from locks l where l.request = (ours[1]).request),
                                 place.key, null, null, null)::answer;
                 continue;
               end if;`,
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
    depth: 1,
    finds: /40P01/,
  },
  {
    name: 'a release that compares no token',
    edits: [
      {
        function: 'release',
        from: 'l.key = pair.key and l.session is not distinct from release.session and l.mode is null and pair.token between l.token + 0 and coalesce(l.token_to, l.token)',
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
  {
    name: 'a key asked for anew whatever the generation',
    edits: [
      {
        function: 'release_and_acquire',
        from: 'and s.generation = release_and_acquire.generation and s.died is null',
        to: 'and s.died is null',
      },
    ],
    program: of(runs, 'a run is begun anew in a call that is taken for lost, and given up'),
    depth: 1,
    finds: /r23, a request that it has given up|r23, which it has given up/,
  },
  {
    name: 'a key asked for anew past the line',
    edits: [
      {
        function: 'release_and_acquire',
        from: 'and (not held.contended or not exists (select from waiters w where w.key = held.key and w.ticket > coalesce(held.served, 0)))',
        to: '',
      },
    ],
    program: of(runs, 'a run is begun anew behind who is in line and gives up'),
    depth: 1,
    finds: /k went to S2, past S3, who was in line before it/,
  },
]

/** The same for what several hold. */
export const mixed: readonly Variant[] = [
  {
    name: 'a line of which only those are looked at who share',
    edits: [
      {
        function: 'serve',
        from: 'bool_and(w.mode is not distinct from here.mode) over line as alike',
        to: 'bool_and(w.mode = here.mode) over line as alike',
      },
    ],
    program: of(readers, 'a guard comes too late for a key that goes to readers, and stays'),
    depth: 1,
    finds: /k was granted shared to S3, who wants it otherwise/,
  },
  {
    name: 'permits that go back without a word of whom they were passed on to',
    edits: [{ function: 'release_holders', from: 'if passed is not null then', to: 'if false then' }],
    program: of(passing, 'permits that were passed on go back while another process looks'),
    depth: 1,
    finds: /has left r22 in line, which has had what it waits for/,
  },
]

/** The same for what happens at times, and once. */
export const timed: readonly Variant[] = [
  {
    name: 'a schedule that is announced once, though it was forgotten meanwhile',
    edits: [{ function: 'announce_schedule', from: 'exit when found;', to: 'exit;' }],
    program: of(ticking, 'a schedule that was forgotten is announced while another finds it'),
    depth: 1,
    finds: /announces s, and there is none/,
  },
  {
    name: 'a tick that is started by whoever says that he has the lease',
    edits: [
      {
        function: 'take_tick',
        from: "perform assert_held(take_tick.schedule || ':schedule', take_tick.token);",
        to: '',
      },
    ],
    program: of(ticking, 'a lease is given back while a call under it is late, and the next one comes'),
    depth: 1,
    finds: /was started under \d+, and (the lease is held )?under \d+|nobody has the lease/,
  },
  {
    name: 'a tick that is ended by whoever has started it, whoever has the lease by now',
    edits: [
      {
        function: 'end_tick',
        from: "perform assert_held(end_tick.schedule || ':schedule', end_tick.token);",
        to: '',
      },
    ],
    program: of(ticking, 'a tick is due at the takeover from a session that ends'),
    depth: 1,
    finds: /nobody has the lease|was started under 101, and is finished by 10\d/,
  },
  {
    name: 'a tick that is taken without a look at who takes at this moment',
    edits: [
      {
        function: 'take_tick',
        from: 'from schedules s where s.name = take_tick.schedule for no key update;',
        to: 'from schedules s where s.name = take_tick.schedule;',
      },
    ],
    program: of(ticking, 'a second attempt is started by a call that is sent twice, and its session closes'),
    depth: 1,
    finds: /was started again under 101|was started 3 times/,
  },
  {
    name: 'a result that is recorded by whoever says that he has the lease',
    edits: [
      {
        function: 'record_once',
        from: "perform assert_held(record_once.key || ':once', record_once.token);",
        to: '',
      },
    ],
    program: of(once, 'a result is recorded at the takeover from a session that ends'),
    depth: 1,
    finds: /the result of k was recorded under 101, and the lease is/,
  },
  {
    name: 'a result that is recorded again whatever is kept',
    edits: [{ function: 'record_once', from: 'where o.token < excluded.token;', to: ';' }],
    program: of(once, 'a result is recorded twice under one lease, which is given back'),
    depth: 1,
    finds:
      /the result of k was first under 101, and is again under 101|the result of k was again under 101, and is first/,
  },
  {
    name: 'old results that are deleted whoever has them at this moment',
    edits: [
      {
        function: 'record_once',
        from: 'order by x.kept_until limit 1000 for update skip locked));',
        to: 'order by x.kept_until limit 1000));',
      },
    ],
    program: of(once, 'a result is recorded anew while others delete the old ones'),
    depth: 1,
    finds: /the result of k is gone before its time/,
  },
]

function of(programs: readonly Program[], name: string): Program {
  const found = programs.find(program => program.name === name)
  if (!found) throw new Error(`no program ${name}`)
  return found
}
