import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { type Direction, Flow, type Weather } from './proxy-flow.ts'

export interface ProxyCounters {
  /** Connections accepted so far. */
  connections: number
  /** Connections open now. */
  open: number
  /** Connections reset by {@link PostgresProxy.cut}, a dropped reply, or a release after a black hole. */
  cut: number
  /** Replies swallowed by {@link PostgresProxy.dropReplyAfter}. */
  repliesDropped: number
  /** Bytes that arrived, by where they were going. */
  bytes: Record<Direction, number>
}

/** Starts a proxy before the server that the URL names. */
export async function startProxy(target: string): Promise<PostgresProxy> {
  const { hostname, port } = new URL(target)
  const proxy = new PostgresProxy(hostname, Number(port || 5432))
  await proxy.accept(true)
  return proxy
}

interface Watch {
  readonly match: (request: string) => boolean
  readonly loses: 'request' | 'reply'
  readonly done: () => void
}

interface Connection {
  readonly client: Socket
  readonly server: Socket
  readonly flows: Flow[]
  torn: boolean
  swallowing: { tail: Buffer; watch: Watch } | undefined
}

/** A TCP proxy to a PostgreSQL server, whose verbs act on every connection through it, and on later ones. */
export class PostgresProxy {
  port = 0
  readonly counters: ProxyCounters = {
    connections: 0,
    open: 0,
    cut: 0,
    repliesDropped: 0,
    bytes: { toServer: 0, toClient: 0 },
  }
  readonly #target: { host: string; port: number }
  readonly #connections = new Set<Connection>()
  readonly #watches = new Set<Watch>()
  readonly #weather: Record<Direction, Weather> = {
    toServer: { state: 'clear', delay: 0 },
    toClient: { state: 'clear', delay: 0 },
  }
  #listener: Server | undefined

  constructor(host: string, port: number) {
    this.#target = { host, port }
  }

  /** The same URL by way of the proxy. */
  url(original: string): string {
    const changed = new URL(original)
    changed.hostname = '127.0.0.1'
    changed.port = String(this.port)
    return changed.href
  }

  /** Resets all connections, on both sides. */
  cut(): void {
    for (const connection of this.#connections) this.#reset(connection)
  }

  /** Keeps bytes back, in one direction or both, until `release`. The end of a connection is kept back, too. */
  hold(direction?: Direction): void {
    for (const weather of this.#facing(direction)) weather.state = 'held'
  }

  /** Loses all bytes, in one direction or both, with no sign to either end: a cable that is pulled out. */
  blackHole(direction?: Direction): void {
    for (const weather of this.#facing(direction)) weather.state = 'lost'
    this.#flushAll()
  }

  /** Delivers each byte that many milliseconds after it came, in one direction or both. */
  delay(ms: number, direction?: Direction): void {
    for (const weather of this.#facing(direction)) weather.delay = ms
  }

  /** Ends hold, black hole and delay. Connections that lost bytes meanwhile are reset. */
  release(): void {
    for (const weather of this.#facing()) Object.assign(weather, { state: 'clear', delay: 0 })
    for (const connection of this.#connections) if (connection.torn) this.#reset(connection)
    this.#flushAll()
  }

  /**
   * Passes on the first request for which `match` is true, swallows its reply up to ReadyForQuery, so that the
   * server is certainly done with it, then resets the connection. Settles when that has happened.
   *
   * @param match is given each chunk of bytes on its way to the server, as text
   */
  dropReplyAfter(match: (request: string) => boolean): Promise<void> {
    return new Promise(done => this.#watches.add({ match, done, loses: 'reply' }))
  }

  /** Swallows the first request for which `match` is true, and resets the connection. Settles when that has happened. */
  dropRequest(match: (request: string) => boolean): Promise<void> {
    return new Promise(done => this.#watches.add({ match, done, loses: 'request' }))
  }

  /** Whether new connections are accepted or refused. */
  async accept(yes: boolean): Promise<void> {
    if (!yes) {
      this.#listener?.close()
      this.#listener = undefined
    } else if (!this.#listener) {
      this.#listener = createServer({ allowHalfOpen: true, noDelay: true }, client => this.#open(client))
      this.#listener.listen(this.port, '127.0.0.1')
      await once(this.#listener, 'listening')
      this.port = (this.#listener.address() as AddressInfo).port
    }
  }

  async close(): Promise<void> {
    await this.accept(false)
    this.cut()
  }

  #open(client: Socket): void {
    const server = connect({ ...this.#target, allowHalfOpen: true, noDelay: true })
    const connection: Connection = { client, server, flows: [], torn: false, swallowing: undefined }
    this.#join(connection, 'toServer', client, server)
    this.#join(connection, 'toClient', server, client)
    this.#connections.add(connection)
    this.counters.connections++
    this.counters.open++
    const closed = () => {
      if (client.destroyed && server.destroyed && this.#connections.delete(connection)) this.counters.open--
    }
    client.on('close', closed)
    server.on('close', closed)
  }

  #join(connection: Connection, direction: Direction, source: Socket, sink: Socket): void {
    const flow = new Flow(source, sink, this.#weather[direction], {
      arrives: bytes => {
        this.counters.bytes[direction] += bytes
      },
      passes: chunk =>
        direction === 'toServer' ? this.#request(connection, chunk) : this.#reply(connection, chunk),
      torn: () => {
        connection.torn = true
      },
    })
    connection.flows.push(flow)
  }

  #request(connection: Connection, chunk: Buffer): boolean {
    const watch = [...this.#watches].find(({ match }) => match(chunk.toString()))
    if (watch) {
      this.#watches.delete(watch)
      if (watch.loses === 'request') {
        this.#reset(connection)
        watch.done()
        return false
      }
      connection.swallowing = { tail: Buffer.alloc(0), watch }
    }
    return true
  }

  #reply(connection: Connection, chunk: Buffer): boolean {
    const { swallowing } = connection
    if (!swallowing) return true
    swallowing.tail = Buffer.concat([swallowing.tail, chunk]).subarray(-6)
    // ReadyForQuery: its letter, its length of five, and the state of the transaction.
    if (swallowing.tail.toString('latin1').startsWith('Z\0\0\0\x05')) {
      this.counters.repliesDropped++
      this.#reset(connection)
      swallowing.watch.done()
    }
    return false
  }

  #reset(connection: Connection): void {
    this.counters.cut++
    connection.client.resetAndDestroy()
    connection.server.resetAndDestroy()
  }

  #facing(direction?: Direction): Weather[] {
    return direction ? [this.#weather[direction]] : Object.values(this.#weather)
  }

  #flushAll(): void {
    for (const { flows } of this.#connections) for (const flow of flows) flow.flush()
  }
}
