import { describeError } from './refusal.mjs'

/** Says something to the parent, unasked. @param {object} news */
export const say = news => void process.send?.({ news })

/**
 * The child's half of `process.mjs`: the parent calls by name, and may call again before it has been answered.
 * @param {() => Promise<{ ready: unknown, calls: Record<string, (argument: any) => unknown> }>} prepare
 */
export async function answer(prepare) {
  process.on('disconnect', () => process.exit())
  // A Ctrl-C reaches the whole group: the parent decides.
  process.on('SIGINT', () => {})
  try {
    const { ready, calls } = await prepare()
    process.on('message', async (/** @type {any} */ { id, call, argument }) => {
      const answered = async () => ({ id, result: await calls[call]?.(argument) })
      process.send?.(await answered().catch(error => ({ id, failure: describeError(error) })))
    })
    process.send?.({ id: 0, result: ready })
  } catch (error) {
    process.send?.({ id: 0, failure: describeError(error) })
  }
}
