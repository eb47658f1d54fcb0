// A candidate's process. Its handle is looked at again and again from its first election on, also after a stall.
import { answer, say } from './answering.mjs'
import { monotonic } from './clock.mjs'

/**
 * What a candidate is started with.
 * @typedef {object} Context
 * @property {string} url of the server
 * @property {string} election
 * @property {number} ttl milliseconds
 * @property {'ttl' | 'fast'} takeover by what a leader that is gone is found out
 * @property {number} [every] milliseconds between two writes of a leader; default: it writes nothing
 */

/**
 * What it tells of its terms.
 * @typedef {object} Tells
 * @property {(token?: string) => void} elected
 * @property {(write: { token?: string, began: number }) => void} wrote after the commit; `began` by `monotonic()`
 */

/**
 * One way to elect a leader. A module in `candidates/` exports one as `candidate`, and beside it `openRecord`.
 * @typedef {object} Candidate
 * @property {string} name as printed
 * @property {string} version
 * @property {string} settings
 * @property {'postgres' | 'etcd'} needs
 * @property {(context: Context, tells: Tells) => void} stand is a candidate from now on, again and again; leads and writes
 *   when elected; SIGTERM ends its process in good order
 * @property {() => boolean} isLeader what its handle answers at this moment
 * @property {() => Promise<void>} resign and stands again
 */

/**
 * The server's account of elections, as the bench reads it.
 * @typedef {object} Record
 * @property {(election: string) => Promise<number>} standing how many lead or are in line
 * @property {(election: string, token: string) => Promise<number>} since when a term began, in milliseconds since 1970 by
 *   the server's clock; NaN where that is not known
 * @property {() => Promise<{ terms: number, writes: number, beside: number }>} account how many terms wrote, how often, and
 *   how many writes came after one of a later term, or under the term of another; NaN where that is not known
 * @property {() => Promise<void>} end
 */

/** Milliseconds between two looks at the handle. */
const every = 5

const [module = ''] = process.argv.slice(2)

await answer(async () => {
  /** @type {{ candidate: Candidate }} */
  const { candidate } = await import(module)
  const { name, version, settings, needs } = candidate
  /** By the wall clock, which the server has, too. */
  let believedUntil = 0
  let isWatched = false
  const look = () => {
    // Read before the answer: what it says holds for that moment at least.
    const at = Date.now()
    const isLeader = candidate.isLeader()
    if (isLeader) believedUntil = at
    return isLeader
  }
  return {
    ready: { name, version, settings, needs },
    calls: {
      /** @param {Context} context */
      stand: context =>
        candidate.stand(context, {
          elected: token => {
            if (!isWatched) setInterval(look, every)
            isWatched = true
            say({ what: 'elected', at: monotonic(), token })
          },
          wrote: write => say({ what: 'wrote', ...write }),
        }),
      resign: () => candidate.resign(),
      look: () => ({ isLeader: look(), believedUntil }),
    },
  }
})
