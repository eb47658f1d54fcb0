import type { Socket } from 'node:net'

export type Direction = 'toServer' | 'toClient'

/** What the proxy does to one direction of all its connections. */
export interface Weather {
  state: 'clear' | 'held' | 'lost'
  delay: number
}

type Parcel = { readonly due: number; readonly content: Buffer | 'end' | 'reset' }

interface FlowEvents {
  arrives(bytes: number): void
  /** Before a chunk is passed on; false: it is swallowed. */
  passes(chunk: Buffer): boolean
  /** The stream has a hole now, and its connection is good for nothing. */
  torn(): void
}

/** One direction of one connection: what arrives at `source` leaves by `sink`, in order, as the weather allows. */
export class Flow {
  readonly #sink: Socket
  readonly #weather: Weather
  readonly #events: FlowEvents
  readonly #waiting: Parcel[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(source: Socket, sink: Socket, weather: Weather, events: FlowEvents) {
    this.#sink = sink
    this.#weather = weather
    this.#events = events
    source.on('data', chunk => {
      events.arrives(chunk.length)
      this.#arrive(chunk)
    })
    source.on('end', () => this.#arrive('end'))
    source.on('error', () => this.#arrive('reset'))
    sink.on('close', () => clearTimeout(this.#timer))
  }

  /** Passes on all that the weather does not keep back, or loses all where it says so. */
  flush(): void {
    clearTimeout(this.#timer)
    if (this.#weather.state === 'lost' && this.#waiting.splice(0).length > 0) this.#events.torn()
    for (let next = this.#waiting[0]; next && this.#weather.state !== 'held'; next = this.#waiting[0]) {
      const early = next.due - performance.now()
      if (early > 0) {
        this.#timer = setTimeout(() => this.flush(), early)
        return
      }
      this.#waiting.shift()
      this.#pass(next.content)
    }
  }

  #arrive(content: Parcel['content']): void {
    this.#waiting.push({ due: performance.now() + this.#weather.delay, content })
    this.flush()
  }

  #pass(content: Parcel['content']): void {
    if (this.#sink.destroyed) return
    if (content === 'end') this.#sink.end()
    else if (content === 'reset') this.#sink.resetAndDestroy()
    else if (this.#events.passes(content)) this.#sink.write(content)
  }
}
