// The listener alone, on connections that are made of what it does with them.
import { afterEach, expect, test } from 'vitest'
import type { Connection, Row, Statement } from '../../src/database/connection.ts'
import type { Lane, Wire } from '../../src/database/lane.ts'
import { Listener } from '../../src/database/listener.ts'
import { until } from '../support/until.ts'

let listener: Listener | undefined
afterEach(() => listener?.stop())

/** A connection that answers everything at once, until it is broken. */
class Line {
  isOpen = true
  onNotification: (payload: string) => void = () => {}
  async query(): Promise<Row[]> {
    if (!this.isOpen) throw new Error('broken')
    return [[]]
  }
  get asConnection(): Connection {
    return this as unknown as Connection
  }
}

/** Where probes are sent from: each waits until the test lets it go, or fails it. */
class Sender {
  readonly sent: { id: string; go: () => void; fail: () => void }[] = []
  readonly wire = {
    query: (statement: (direct: boolean) => Statement) =>
      new Promise<Row[]>((resolve, reject) => {
        const id = String(statement(true).values[1])
        this.sent.push({ id, go: () => resolve([]), fail: () => reject(new Error('broken')) })
      }),
  } as unknown as Wire
}

test('a probe of a connection that is gone does not make its successor deaf', async () => {
  const [first, second, sender] = [new Line(), new Line(), new Sender()]
  const said: string[] = []
  const lane = { connection: second, open: async () => second } as unknown as Lane
  listener = new Listener(lane, sender.wire, 'a channel', 60_000, {
    hinted: () => {},
    claim: async () => true,
    listening: async () => {
      said.push('listening')
    },
    polling: () => said.push('polling'),
  })
  await listener.attach(first.asConnection)
  await until(() => sender.sent.length === 1)
  // Everything is ended at once; the new connection is there before the old probe is known to be lost.
  first.isOpen = false
  listener.detach()
  await listener.attach(second.asConnection)
  await until(() => sender.sent.length === 2)
  const [old, probe] = sender.sent
  old?.fail()
  await new Promise(setImmediate)
  second.onNotification(probe?.id ?? '')
  probe?.go()
  await until(() => said.length > 0)
  expect([said, listener.state]).toEqual([['listening'], 'listening'])
})
