import { describe, expect, onTestFinished, test } from 'vitest'
import type { Election, Fencepost, LeadOptions, Term } from '../../src/index.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { until } from '../support/until.ts'

/** What a callback does until it is let go. */
class Work {
  readonly terms: Term[] = []
  /** Elected and ended, in order. */
  readonly said: string[] = []
  #letGo: ((error?: Error) => void)[] = []

  readonly run = async (term: Term): Promise<void> => {
    this.terms.push(term)
    this.said.push('elected')
    try {
      await new Promise<void>((resolve, reject) => {
        this.#letGo.push(error => (error ? reject(error) : resolve()))
      })
    } finally {
      this.said.push('ended')
    }
  }

  /** Waits until it runs under so many terms, and answers the last. */
  async led(count: number): Promise<Term> {
    await until(() => this.terms.length === count, { what: `${count} terms` })
    return this.terms.at(-1) as Term
  }

  end(error?: Error): void {
    for (const letGo of this.#letGo.splice(0)) letGo(error)
  }
}

describe('lead', () => {
  const stage = new Stage(ways['a pool'])
  const client = (options = {}) => stage.client({ poll: 100, ...options })

  /** Leads in the background, until the end of the test at the latest. */
  function leading(election: Election, work: Work, options: LeadOptions = {}) {
    const controller = new AbortController()
    const ended = election.lead(work.run, { signal: controller.signal, ...options })
    let isOver = false
    ended.then(
      () => {
        isOver = true
      },
      () => {},
    )
    onTestFinished(async () => {
      controller.abort()
      await until(() => {
        work.end()
        return isOver
      })
    })
    return { ended, abort: (reason?: unknown) => controller.abort(reason), isOver: () => isOver }
  }

  /** Waits until its lease was renewed so many times. */
  async function renewed({ lock }: Term, times: number): Promise<void> {
    let [left, renewals] = [lock.remaining, 0]
    await until(() => {
      if (lock.remaining > left) renewals += 1
      left = lock.remaining
      return renewals === times
    })
  }

  /** Who leads by the database's record. */
  const leader = async (of: Election) => (await of.leader())?.identity ?? null

  test('aborted, it awaits the callback before anybody else can have the leadership', async () => {
    const [election, other] = [client().election('e'), client().election('e')]
    const work = new Work()
    const { ended, abort } = leading(election, work)
    const term = await work.led(1)
    expect(election.isLeader).toBe(true)
    const next = other.campaign()
    await stage.queued('e', 1)
    const reason = new Error('enough')
    abort(reason)
    expect([term.signal.aborted, term.signal.reason, election.isLeader]).toEqual([true, reason, false])
    // It still works under it, and may: what it writes now commits.
    await term.transaction(() => {})
    expect(await stage.waiting('e')).toBe(1)
    expect(await leader(election)).toBe(election.identity)
    work.end()
    await ended
    expect((await next).token).toBeGreaterThan(term.token)
    expect(work.said).toEqual(['elected', 'ended'])
  })

  test('a callback that returns gives it back, and campaigns again at the end of the line', async () => {
    const [election, other] = [client().election('e'), client().election('e')]
    const work = new Work()
    leading(election, work)
    const first = await work.led(1)
    const next = other.campaign()
    await stage.queued('e', 1)
    work.end()
    await next
    await stage.queued('e', 1)
    expect([election.isLeader, other.isLeader]).toEqual([false, true])
    await other.resign()
    expect((await work.led(2)).token).toBeGreaterThan(first.token)
    expect(first.signal.aborted).toBe(true)
  })

  test('a callback that throws gives it back at once, is told of, and campaigns again later', async () => {
    const [election, other] = [client().election('e'), client().election('e')]
    const work = new Work()
    const told: unknown[] = []
    leading(election, work, { onError: error => told.push(error) })
    const first = await work.led(1)
    const next = other.campaign()
    await stage.queued('e', 1)
    const error = new Error('failed in here')
    work.end(error)
    const { token } = await next
    expect([first.signal.aborted, election.isLeader, told]).toEqual([true, false, [error]])
    await stage.queued('e', 1)
    await other.resign()
    expect((await work.led(2)).token).toBeGreaterThan(token)
  })

  test('what a callback throws is a warning of the process where nobody asks for it', async () => {
    const warned: Error[] = []
    const listen = (warning: Error & { code?: string }) => {
      if (warning.code === 'FENCEPOST_LEADER_FAILED') warned.push(warning)
    }
    process.on('warning', listen)
    onTestFinished(() => void process.off('warning', listen))
    const work = new Work()
    leading(client().election('e'), work)
    await work.led(1)
    work.end(new Error('failed in here'))
    await until(() => warned.length > 0)
    expect(warned[0]?.message).toContain('failed in here')
  })

  test('on a loss the callback is awaited, too, before it campaigns again', async () => {
    const losing = client({ ttl: '2s' })
    const [election, other] = [losing.election('e'), client().election('e')]
    const work = new Work()
    leading(election, work)
    const term = await work.led(1)
    await stage.bury(losing)
    const next = await other.campaign()
    await until(() => term.signal.aborted)
    expect(term.signal.reason).toMatchObject({ code: 'lost', reason: 'expired' })
    expect(election.isLeader).toBe(false)
    await expect(term.transaction(() => {})).rejects.toMatchObject({ code: 'lost' })
    expect(await stage.waiting('e')).toBe(0)
    work.end()
    await stage.queued('e', 1)
    await other.resign()
    expect((await work.led(2)).token).toBeGreaterThan(next.token)
    expect(work.said).toEqual(['elected', 'ended', 'elected'])
  })

  test('code that ends because it was told to is not told of, nor paused for; another error is told of', async () => {
    const election = client().election('e')
    const work = new Work()
    const told: unknown[] = []
    leading(election, work, { onError: error => told.push(error) })
    for (const [count, error] of [
      [1, undefined],
      [2, new DOMException('stopped', 'AbortError')],
      [3, new Error('while it stopped')],
    ] as const) {
      const { signal } = await work.led(count)
      const resigned = election.resign()
      work.end(error ?? signal.reason)
      expect(await resigned).toBe('released')
    }
    await work.led(4)
    expect(told).toEqual([new Error('while it stopped')])
  })

  test('resigned, it awaits the callback, gives it back, and campaigns again at the end of the line', async () => {
    const [election, other] = [client({ ttl: '2s' }).election('e'), client().election('e')]
    const work = new Work()
    const { isOver } = leading(election, work)
    const term = await work.led(1)
    const next = other.campaign()
    await stage.queued('e', 1)
    let isGivenBack = false
    const resigned = election.resign().then(outcome => {
      isGivenBack = true
      return outcome
    })
    expect([term.signal.aborted, election.isLeader]).toEqual([true, false])
    await renewed(term, 1)
    expect(await leader(election)).toBe(election.identity)
    expect([isGivenBack, work.said]).toEqual([false, ['elected']])
    work.end()
    expect(await resigned).toBe('released')
    await next
    await stage.queued('e', 1)
    expect(isOver()).toBe(false)
    await other.resign()
    await work.led(2)
  })

  test('the callback may resign itself, and does not wait for its own end', async () => {
    const election = client().election('e')
    const controller = new AbortController()
    const outcomes: unknown[] = []
    await election.lead(
      async term => {
        outcomes.push(await election.resign(), term.signal.aborted, election.isLeader)
        controller.abort()
      },
      { signal: controller.signal },
    )
    expect(outcomes).toEqual(['released', true, false])
  })

  test('a place in line that is lost is taken anew, and a dead candidacy never leads', async () => {
    const dying = client({ ttl: '2s' })
    const [election, holder] = [dying.election('e'), client().election('e')]
    await holder.campaign()
    const work = new Work()
    leading(election, work)
    await stage.queued('e', 1)
    const sessionInLine = async () =>
      (await stage.db.query<{ session: string }>(`select session from ${stage.sql('waiters')}`))[0]?.session
    const before = await sessionInLine()
    await stage.bury(dying)
    await until(async () => ![before, undefined].includes(await sessionInLine()))
    expect(work.terms).toEqual([])
    await holder.resign()
    await work.led(1)
  })

  test('closing the client drains it, within the timeout of close, while the lease is renewed', async () => {
    const closing = client({ ttl: '2s' })
    const [election, other] = [closing.election('e'), client().election('e')]
    const work = new Work()
    const { ended } = leading(election, work)
    const term = await work.led(1)
    const { signal } = term
    const next = other.campaign()
    await stage.queued('e', 1)
    const closed = closing.close({ timeout: '20s' })
    await until(() => signal.aborted)
    expect(election.isLeader).toBe(false)
    expect(signal.reason).toMatchObject({ code: 'lost', reason: 'shutdown' })
    await renewed(term, 2)
    expect(await stage.waiting('e')).toBe(1)
    work.end()
    await Promise.all([closed, ended])
    await next
    expect(work.said).toEqual(['elected', 'ended'])
  })

  test('closing the client, or the signal, ends a campaign in line and a pause', async () => {
    const [closing, aborted] = [client(), client()]
    const holder = client().election('e')
    await holder.campaign()
    const waiting = leading(closing.election('e'), new Work())
    const work = new Work()
    const told: unknown[] = []
    const pausing = leading(aborted.election('other'), work, { onError: error => told.push(error) })
    await work.led(1)
    work.end(new Error('pauses it'))
    await until(() => told.length === 1)
    await stage.queued('e', 1)
    await closing.close()
    await waiting.ended
    pausing.abort()
    await pausing.ended
    expect(await stage.waiting('e')).toBe(0)
    await expect(closing.election('e').lead(() => {})).resolves.toBeUndefined()
  })

  test('the end of a pause is not waited for', async () => {
    const election = client().election('e')
    const controller = new AbortController()
    let runs = 0
    const told: unknown[] = []
    const leading = election.lead(
      () => {
        runs += 1
        throw new Error('again')
      },
      { signal: controller.signal, onError: error => told.push(error) },
    )
    await until(() => told.length === 4)
    const before = runs
    controller.abort()
    await leading
    expect(runs).toBe(before)
  })

  test('what no later try would do better at is thrown', async () => {
    const lost = stage.client({ schema: 'elsewhere' })
    await expect(lost.election('e').lead(() => {})).rejects.toMatchObject({ code: 'not_migrated' })
    await expect(
      client()
        .election('e', { ttl: '2h' })
        .lead(() => {}),
    ).rejects.toMatchObject({
      code: 'bad_option',
    })
    const nowhere = stage.client(
      {},
      { options: { connectionString: 'postgres://127.0.0.1:1/x' }, opensItsOwn: true },
    )
    await expect(nowhere.election('e').lead(() => {})).rejects.toMatchObject({ code: 'unreachable' })
  })

  test('what is asked for inside stands in no line of its own leader', async () => {
    const inside = client()
    const election = inside.election('e')
    const controller = new AbortController()
    await election.lead(
      async () => {
        await expect(inside.election('e').campaign()).rejects.toMatchObject({ code: 'already_held' })
        await inside.withLock('another', () => {})
        controller.abort()
      },
      { signal: controller.signal },
    )
  })

  test('elected and ended alternate in each candidate, and nobody leads beside another, whatever happens', async () => {
    const clients: Fencepost[] = Array.from({ length: 4 }, () => client({ ttl: '2s' }))
    const controller = new AbortController()
    const said = clients.map(() => [] as string[])
    let [inside, beside, terms] = [0, 0, 0]
    let last = 0n
    let isRising = true
    const elections = clients.map(each => each.election('e'))
    const leading = elections.map((election, i) =>
      election.lead(
        async ({ token, signal }) => {
          said[i]?.push('elected')
          inside += 1
          terms += 1
          if (inside > 1) beside += 1
          isRising &&= token > last
          last = token
          // It stops as soon as it is told to, so that the one beside it came too early.
          await new Promise<void>(resolve => {
            const timer = setTimeout(resolve, 20 + Math.random() * 60)
            signal.addEventListener('abort', () => {
              clearTimeout(timer)
              resolve()
            })
          })
          inside -= 1
          said[i]?.push('ended')
          if (terms % 7 === 0) throw new Error('now and then')
        },
        { signal: controller.signal, onError: () => {} },
      ),
    )
    const operator = client()
    await until(
      async () => {
        const [one] = elections.filter(({ isLeader }) => isLeader)
        const what = Math.random()
        if (what < 0.2) await one?.resign()
        else if (what < 0.4) await operator.forceRelease('e', { reason: 'a test' })
        return terms >= 60
      },
      { within: 40_000, every: 30 },
    )
    controller.abort()
    await Promise.all(leading)
    expect({ beside, isRising }).toEqual({ beside: 0, isRising: true })
    for (const each of said) {
      expect(each.length % 2).toBe(0)
      expect(each).toEqual(each.map((_, i) => (i % 2 === 0 ? 'elected' : 'ended')))
    }
    expect(said.every(each => each.length > 4)).toBe(true)
  })
})
