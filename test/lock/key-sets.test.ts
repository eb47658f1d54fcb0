import { describe, expect, test } from 'vitest'
import type { Fencepost, Lock } from '../../src/index.ts'
import { Stage } from '../conformance/stage.ts'
import { ways } from '../conformance/ways.ts'
import { seed } from '../model/seed.ts'
import { randomBy } from '../support/random.ts'

/** For longer runs, as in .ci/run: seconds that the callers go on for, beyond their rounds. */
const seconds = Number(process.env.FENCEPOST_SECONDS ?? 0)
const clients = Number(process.env.FENCEPOST_CLIENTS ?? 10)
const keys = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']

describe('random sets of keys in random order', () => {
  const stage = new Stage(ways['a pool'])

  test(
    'fifty callers: everybody gets on, nobody is beside another, and nothing is left',
    async () => {
      const random = randomBy(seed)
      const inside = new Map<string, { readers: number; writers: number; last: bigint }>()
      for (const key of keys) inside.set(key, { readers: 0, writers: 0, last: 0n })
      const wrong: string[] = []
      let givenUp = 0

      function enter(lock: Lock): void {
        const writes = lock.mode === 'exclusive'
        for (const [key, token] of lock.tokens) {
          const here = inside.get(key) as { readers: number; writers: number; last: bigint }
          if (here.writers > 0 || (writes && here.readers > 0))
            wrong.push(`${lock.mode} ${key} beside ${here.writers} writers and ${here.readers} readers`)
          if (writes && token <= here.last) wrong.push(`${key}: ${token} after ${here.last}`)
          if (token > here.last) here.last = token
          if (writes) here.writers += 1
          else here.readers += 1
        }
      }

      function leave(lock: Lock): void {
        const writes = lock.mode === 'exclusive'
        for (const key of lock.tokens.keys()) {
          const here = inside.get(key) as { readers: number; writers: number }
          if (writes) here.writers -= 1
          else here.readers -= 1
        }
      }

      async function round(client: Fencepost, mayGiveUp: boolean): Promise<number> {
        const shuffled = [...keys].sort(() => random() - 0.5)
        const set = shuffled.slice(0, 1 + Math.floor(random() * 4))
        const mode = set.length === 1 && random() < 0.5 ? 'shared' : 'exclusive'
        const timeout = mayGiveUp && random() < 0.2 ? Math.floor(random() * 60) : undefined
        const ms = random() * 4
        try {
          await client.withLock(set, { mode, timeout }, async lock => {
            enter(lock)
            await new Promise(resolve => setTimeout(resolve, ms))
            lock.assertHeld()
            leave(lock)
          })
          return 1
        } catch (error) {
          expect(error).toMatchObject({ code: 'timed_out' })
          givenUp += 1
          return 0
        }
      }

      // Where nothing wakes them, they look often: two hundred times a second, however many they are.
      const all = Array.from({ length: clients }, () => stage.client({ poll: clients * 5 }))
      const until = performance.now() + seconds * 1_000
      const grants = await Promise.all(
        Array.from({ length: 50 }, async (_, i) => {
          let own = 0
          for (let rounds = 0; rounds < 6 || performance.now() < until; rounds++)
            own += await round(all[i % all.length] as Fencepost, rounds > 0)
          return own
        }),
      )
      const [least, most] = [Math.min(...grants), Math.max(...grants)]
      if (seconds > 0) console.log({ least, most, givenUp })
      expect(wrong).toEqual([])
      expect(least).toBeGreaterThan(0)
      expect(givenUp).toBeGreaterThan(0)
      // In a line nobody gets on much faster than others, given time.
      if (seconds > 0) expect(least).toBeGreaterThan(most / 4)
      expect(await stage.keysInUse()).toEqual([])
    },
    120_000 + seconds * 1_500,
  )
})
