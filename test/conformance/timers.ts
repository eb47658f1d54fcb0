import { createHook } from 'node:async_hooks'
import { onTestFinished } from 'vitest'

/**
 * Watches the timers that the sources at these paths make, to the end of the test; those that do not keep
 * the process alive are seen, too.
 *
 * @returns `alive`: of each that is still to fire, the place where it was made
 */
export function timersOf(...paths: string[]): { alive: () => Promise<string[]> } {
  const alive = new Map<number, string>()
  const hook = createHook({
    init(id, type) {
      if (type !== 'Timeout') return
      const frames = new Error().stack?.split('\n') ?? []
      const made = frames.find(frame => frame.includes('/src/'))
      if (made && paths.some(path => made.includes(path))) alive.set(id, made.trim())
    },
    destroy(id) {
      alive.delete(id)
    },
  }).enable()
  onTestFinished(() => void hook.disable())
  return {
    alive: async () => {
      // That a timer was cleared is told one turn later.
      for (let turn = 0; turn < 2; turn++) await new Promise(setImmediate)
      return [...alive.values()]
    },
  }
}
