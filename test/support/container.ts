import { existsSync } from 'node:fs'
import { get } from 'node:http'
import { GenericContainer, Wait } from 'testcontainers'
import { connects } from './admin.ts'
import type { ServerUnderTest } from './server-under-test.ts'
import { major } from './settings.ts'
import { until } from './until.ts'

/** Whether a Docker-compatible engine answers, at DOCKER_HOST or at the usual socket. */
export async function engineAnswers(): Promise<boolean> {
  const address = process.env.DOCKER_HOST ?? 'unix:///var/run/docker.sock'
  const { protocol, hostname, port, pathname } = new URL(address)
  if (protocol === 'unix:') return existsSync(pathname) && (await answers({ socketPath: pathname }))
  return await answers({ host: hostname, port: Number(port) })
}

function answers(where: { socketPath: string } | { host: string; port: number }): Promise<boolean> {
  return new Promise(resolve => {
    const request = get({ ...where, path: '/_ping', timeout: 1000 }, response => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    request.on('timeout', () => request.destroy())
    request.on('error', () => resolve(false))
  })
}

export async function startContainer(): Promise<ServerUnderTest> {
  const image = `postgres:${major}-alpine`
  const container = await new GenericContainer(image)
    .withEnvironment({ POSTGRES_PASSWORD: 'fencepost' })
    .withCommand(['postgres', '-c', 'max_connections=300'])
    .withExposedPorts(5432)
    .withWaitStrategy(Wait.forLogMessage(/ready to accept connections/))
    .start()
  const adminUrl = `postgresql://postgres:fencepost@${container.getHost()}:${container.getMappedPort(5432)}/postgres`
  // The image starts a first server for its own set-up, whose log cannot be told from the real one's.
  await until(() => connects(adminUrl), {
    within: 60_000,
    what: 'the server in the container takes connections',
  })
  return { origin: `container ${image}`, adminUrl, end: async () => void (await container.stop()) }
}
