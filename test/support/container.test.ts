import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net'
import { afterEach, expect, test, vi } from 'vitest'
import { engineAnswers } from './container.ts'

let listening: Server | undefined
afterEach(() => {
  vi.unstubAllEnvs()
  listening?.close()
})

async function at(server: Server): Promise<string> {
  listening = server
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('an engine is one that answers a ping', async () => {
  const engine = createServer(({ url }, response) =>
    response.writeHead(url === '/_ping' ? 200 : 404).end('OK'),
  )
  vi.stubEnv('DOCKER_HOST', await at(engine))
  expect(await engineAnswers()).toBe(true)
})

test('a dead socket, a closed port and one that never answers are none', async () => {
  vi.stubEnv('DOCKER_HOST', 'unix:///nowhere/docker.sock')
  expect(await engineAnswers()).toBe(false)
  vi.stubEnv('DOCKER_HOST', 'tcp://127.0.0.1:1')
  expect(await engineAnswers()).toBe(false)
  vi.stubEnv('DOCKER_HOST', await at(createTcpServer()))
  expect(await engineAnswers()).toBe(false)
})
