// The thread's program is loaded as it is, from the sources as from the package.
import { expect, test } from 'vitest'
import { BadOptionError, Fencepost, type FencepostOptions } from '../../src/index.ts'
import { Stage } from '../session/stage.ts'

const stage = new Stage()

test('a client in this process holds under a watchdog, renews, and closes', async () => {
  const warnings: Error[] = []
  const warned = (warning: Error) => warnings.push(warning)
  process.on('warning', warned)
  const client = stage.client({ watchdog: true })
  const lock = await client.acquire('k')
  await lock.renew()
  expect(await lock.release()).toBe('released')
  const again = await client.acquire('k')
  await client.close()
  expect(again.lossReason).toBe('shutdown')
  process.off('warning', warned)
  expect(warnings.filter(({ name }) => name === 'FencepostWarning')).toEqual([])
})

test('it is on or off', () => {
  const options = { connectionString: stage.db.url, watchdog: 'yes' } as unknown as FencepostOptions
  expect(() => new Fencepost(options)).toThrow(BadOptionError)
})
