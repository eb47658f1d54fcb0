import { once } from 'node:events'
import { connect, createServer } from 'node:net'

/** The address of whichever server is the primary now, as a load balancer in front of a pair has it. */
export class Front {
  /** @type {Set<import('node:net').Socket>} */
  #sockets = new Set()
  #server
  port = 0
  target = 0

  /** @param {number} target port on 127.0.0.1 */
  async start(target) {
    this.target = target
    this.#server = createServer({ noDelay: true }, client => this.#open(client))
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    this.port = this.#server.address().port
  }

  /** Later connections go there; those that are open are reset. */
  turn(target) {
    this.target = target
    this.cut()
  }

  cut() {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  async close() {
    this.#server?.close()
    this.cut()
  }

  #open(client) {
    const server = connect({ host: '127.0.0.1', port: this.target, noDelay: true })
    for (const [one, other] of [
      [client, server],
      [server, client],
    ]) {
      this.#sockets.add(one)
      one.on('error', () => other.resetAndDestroy())
      one.on('close', () => this.#sockets.delete(one))
      one.pipe(other)
    }
  }
}
