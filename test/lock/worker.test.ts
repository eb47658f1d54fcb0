// What is sent before what: the next batch goes out before the last answer is taken in, and nothing past a failure.
import { expect, test } from 'vitest'
import { type Rest, Worker } from '../../src/lock/worker.ts'

/** A worker over batches that are answered by hand. */
function scripted(batches: { mayOverlap: boolean }[]) {
  const said: string[] = []
  const answers: ((rest: Rest | undefined) => void)[] = []
  const failures: ((error: unknown) => void)[] = []
  let next = 0
  const worker = new Worker(isRestLeft => {
    const batch = batches[next]
    if (batch === undefined || (isRestLeft && !batch.mayOverlap)) return undefined
    const name = `${next++}`
    said.push(`send ${name}`)
    return new Promise((resolve, reject) => {
      answers.push(() => resolve(() => said.push(`take in ${name}`)))
      failures.push(reject)
    })
  })
  return { worker, said, answers, failures }
}
const turn = () => new Promise(resolve => setImmediate(resolve))

test('the next batch is sent before the last answer is taken in', async () => {
  const { worker, said, answers } = scripted([{ mayOverlap: true }, { mayOverlap: true }])
  worker.wake()
  await turn()
  answers[0]?.(undefined)
  await turn()
  answers[1]?.(undefined)
  await worker.idle()
  expect(said).toEqual(['send 0', 'send 1', 'take in 0', 'take in 1'])
})

test('a batch that depends on the last answer waits until that is taken in', async () => {
  const { worker, said, answers } = scripted([{ mayOverlap: true }, { mayOverlap: false }])
  worker.wake()
  await turn()
  answers[0]?.(undefined)
  await turn()
  answers[1]?.(undefined)
  await worker.idle()
  expect(said).toEqual(['send 0', 'take in 0', 'send 1', 'take in 1'])
})

test('after a step that failed past its own handling the worker goes on', async () => {
  const warned = new Promise<Error>(resolve => process.once('warning', resolve))
  const { worker, said, answers, failures } = scripted([{ mayOverlap: true }, { mayOverlap: true }])
  worker.wake()
  await turn()
  failures[0]?.(new Error('out of the blue'))
  await turn()
  answers[1]?.(undefined)
  await worker.idle()
  expect(said).toEqual(['send 0', 'send 1', 'take in 1'])
  expect((await warned).message).toBe('out of the blue')
})

test('a taking in that fails is not repeated, and does not let a second batch out', async () => {
  const warned = new Promise<Error>(resolve => process.once('warning', resolve))
  const said: string[] = []
  let answer = (): void => {}
  const worker = new Worker(() => {
    const name = said.length
    if (name > 1) return undefined
    said.push(`send ${name}`)
    if (name === 0)
      return Promise.resolve(() => {
        throw new Error('while it was taken in')
      })
    return new Promise(resolve => {
      answer = () => resolve(() => said.push('take in 1'))
    })
  })
  worker.wake()
  expect((await warned).message).toBe('while it was taken in')
  await turn()
  expect(said).toEqual(['send 0', 'send 1'])
  answer()
  await worker.idle()
  expect(said).toEqual(['send 0', 'send 1', 'take in 1'])
})

test('what the taking in brings about is done without another wake', async () => {
  const said: string[] = []
  let hasMore = false
  const worker = new Worker(() => {
    if (said.length === 0) {
      said.push('first')
      return Promise.resolve(() => {
        hasMore = true
      })
    }
    if (!hasMore) return undefined
    hasMore = false
    said.push('second')
    return Promise.resolve(undefined)
  })
  worker.wake()
  await worker.idle()
  expect(said).toEqual(['first', 'second'])
})
