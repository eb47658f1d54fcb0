/** Of elections: as those of `index.mjs`. */
export const electionPlants = [
  {
    name: 'given-back-undrained',
    says: 'a leader that is told to stop gives the leadership back at once, and its callback goes on',
    rules: ['drained'],
    faults: [],
    copies: { election: 4 },
    client: [
      {
        file: 'election/leading.js',
        find: 'term.stop(this.#stop.signal.reason))',
        replace: '{ term.stop(this.#stop.signal.reason); void term.finish(); })',
      },
    ],
  },
  {
    name: 'observer-looks-seldom',
    says: 'an observer looks once in four poll intervals',
    rules: ['observed'],
    faults: [],
    copies: { election: 4 },
    client: [{ file: 'election/observer.js', find: 'poll / 2', replace: 'poll * 4' }],
  },
  {
    name: 'grace-not-awaited',
    says: 'a leader whose connection is gone is buried at once, and not when it has been gone for its grace',
    rules: ['one-leader', 'told-first'],
    faults: ['abandoned'],
    copies: { 'fast-election': 3 },
    seconds: 45,
    client: [
      {
        file: 'election/presence/absences.js',
        find: 'return seen.absentSince + seen.grace',
        replace: 'return seen.absentSince',
      },
    ],
  },
  {
    name: 'trust-not-shortened',
    says: 'a leader that shows its presence trusts for its ttl all the same',
    rules: ['one-leader', 'told-first'],
    faults: ['abandoned'],
    copies: { 'fast-election': 3 },
    seconds: 45,
    client: [
      {
        file: 'election/presence/owner.js',
        find: 'return this.#since && {',
        replace: 'return undefined && {',
      },
    ],
  },
]
