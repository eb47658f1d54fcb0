import { expect } from 'vitest'
import { Fencepost, type FencepostOptions } from '../../../src/index.ts'
import { nothing } from '../../support/leftovers.ts'
import { type PostgresProxy, startProxy } from '../../support/proxy.ts'
import { until } from '../../support/until.ts'
import type { Stage } from './stage.ts'

/** The clients of one test, some of them behind a proxy. */
export class Clients {
  readonly #stage: Stage
  readonly #made: Fencepost[] = []
  readonly #proxies: PostgresProxy[] = []

  constructor(stage: Stage) {
    this.#stage = stage
  }

  direct(options: FencepostOptions = {}): Fencepost {
    const made = new Fencepost({ pool: this.#stage.db.pool(), schema: this.#stage.db.schema, ...options })
    this.#made.push(made)
    return made
  }

  /** A client all of whose connections go through a proxy of its own. */
  async proxied(options: FencepostOptions = {}): Promise<{ fp: Fencepost; proxy: PostgresProxy }> {
    const proxy = await startProxy(this.#stage.db.url)
    this.#proxies.push(proxy)
    return { fp: this.direct({ pool: proxy.url(this.#stage.db.url), ...options }), proxy }
  }

  /** A client whose connection for heartbeats and notifications alone goes through a proxy. */
  async beatProxied(options: FencepostOptions = {}): Promise<{ fp: Fencepost; proxy: PostgresProxy }> {
    const proxy = await startProxy(this.#stage.db.url)
    this.#proxies.push(proxy)
    const listen = { connectionString: proxy.url(this.#stage.db.url) }
    return { fp: this.direct({ ...options, listen }), proxy }
  }

  /** Once the client has its connections, and they have come to rest in the way that they are used from then on. */
  async ready(fp: Fencepost): Promise<void> {
    await until(
      async () => {
        await (await fp.acquire('warm')).release()
        const rows = await this.#stage.sql(
          `select application_name as name, query from pg_stat_activity
            where datname = current_database() and application_name like 'fencepost %'`,
        )
        const last = { 'fencepost beat': '', 'fencepost ask': '.acquire(', 'fencepost return': '.release(' }
        return (
          rows.length >= 3 && rows.every(({ name, query }) => query.includes(last[name as keyof typeof last]))
        )
      },
      { what: 'the client’s connections are ready' },
    )
  }

  /** Ends them all; nothing is left of them in the database then, but what `except` says. */
  async end(): Promise<void> {
    await this.#stage.undo()
    for (const proxy of this.#proxies) proxy.release()
    for (const proxy of this.#proxies) await proxy.accept(true)
    await Promise.all(this.#made.splice(0).map(client => client.close()))
    for (const proxy of this.#proxies.splice(0)) await proxy.close()
    await until(
      async () => {
        const rows = await this.#stage.sql(
          `select application_name from pg_stat_activity
            where datname = current_database() and application_name like 'fencepost %'`,
        )
        return rows.length === 0
      },
      { what: 'the clients’ connections are gone' },
    )
    expect(await this.#stage.clear()).toEqual(nothing)
  }
}

/** For {@link PostgresProxy.dropReplyAfter}: a request that calls this function of ours, however it is put. */
export function callOf(name: string): (request: string) => boolean {
  const pattern = new RegExp(`fencepost_${name}_|\\.${name}\\(|\\.invoke\\([^]*${name}`)
  return request => pattern.test(request)
}
