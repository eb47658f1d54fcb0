import { QueueFullError } from '../errors.ts'
import { keepAlive, letGo } from '../keep-alive.ts'
import type { Session } from '../session/session.ts'
import type { Request } from './request.ts'

/** The requests of this client that are not decided yet, whether asked or in line. */
export class Line {
  readonly #requests = new Set<Request>()
  readonly #byId = new Map<string, Request>()
  readonly #byKey = new Map<string, number>()
  readonly #queued = new Map<Session, Set<Request>>()
  readonly #maxPending: number
  readonly #maxPendingPerKey: number

  constructor(maxPending: number, maxPendingPerKey: number) {
    this.#maxPending = maxPending
    this.#maxPendingPerKey = maxPendingPerKey
  }

  get size(): number {
    return this.#requests.size
  }

  /** @throws QueueFullError */
  checkRoom(name: string, keys: readonly string[] = [name]): void {
    if (this.#requests.size >= this.#maxPending) throw new QueueFullError(name, this.#maxPending)
    if (this.#maxPendingPerKey === Number.POSITIVE_INFINITY) return
    for (const key of keys) {
      if ((this.#byKey.get(key) ?? 0) >= this.#maxPendingPerKey)
        throw new QueueFullError(key, this.#maxPendingPerKey)
    }
  }

  add(request: Request): void {
    this.#requests.add(request)
    if (this.#maxPendingPerKey !== Number.POSITIVE_INFINITY) {
      for (const key of request.keys ?? [request.key]) this.#byKey.set(key, (this.#byKey.get(key) ?? 0) + 1)
    }
    keepAlive()
  }

  /** One that is in line, at once; one that is still being asked for, by looking through them all: that is rare. */
  get(id: string): Request | undefined {
    return this.#byId.get(id) ?? this.all().find(request => request.id === id)
  }

  all(): Request[] {
    return [...this.#requests]
  }

  enqueue(request: Request, session: Session): void {
    request.stage = 'queued'
    request.placedUnder = session
    let queued = this.#queued.get(session)
    if (!queued) {
      queued = new Set()
      this.#queued.set(session, queued)
    }
    queued.add(request)
    this.#byId.set(request.id, request)
  }

  dequeue(request: Request): void {
    const { session } = request
    const queued = session && this.#queued.get(session)
    if (!queued?.delete(request)) return
    if (queued.size === 0 && session) this.#queued.delete(session)
  }

  queuedOf(session: Session): readonly Request[] {
    return [...(this.#queued.get(session) ?? [])]
  }

  remove(request: Request): void {
    this.dequeue(request)
    if (!this.#requests.delete(request)) return
    if (this.#byId.size > 0) this.#byId.delete(request.id)
    letGo()
    if (this.#byKey.size === 0) return
    for (const key of request.keys ?? [request.key]) {
      const left = (this.#byKey.get(key) ?? 0) - 1
      if (left > 0) this.#byKey.set(key, left)
      else this.#byKey.delete(key)
    }
  }
}
