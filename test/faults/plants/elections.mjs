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
]
