/**
 * Whether what a request waits for comes back to it. Somebody is stuck who waits for one who is stuck, or for any one of several
 * who all are; from all who might be, those are taken out, again and again, of whom that is not true. Who is left waits for
 * ever. It is given up by the youngest ticket among those that wait for each other, so that all who look agree.
 */
import type { Wait } from '../database/answers.ts'
import type { DeadlockStep } from '../errors.ts'

interface Node {
  readonly all: Wait[]
  readonly any: Wait[]
  ticket: bigint
}

/** The number of the request that asks. */
const self = 0

/** The circle that it closes, if it is the one to give up; else undefined. */
export function deadlockOf(waits: readonly Wait[]): DeadlockStep[] | undefined {
  const nodes = nodesOf(waits)
  dropFree(nodes)
  const circle = nodes.has(self) ? pathBack(nodes) : undefined
  if (!circle) return undefined
  const around = reachable(nodes, self)
  const youngest = [...around]
    .filter(node => reachable(nodes, node).has(self))
    .reduce((most, node) =>
      (nodes.get(node) as Node).ticket > (nodes.get(most) as Node).ticket ? node : most,
    )
  if (youngest !== self) return undefined
  return circle
    .filter(({ key }) => key !== undefined)
    .map(({ waiter, key, owner }) => ({ key: key as string, owner, isOurs: waiter === self }))
}

function nodesOf(waits: readonly Wait[]): Map<number, Node> {
  const nodes = new Map<number, Node>()
  for (const wait of waits) {
    const node = nodes.get(wait.waiter) ?? { all: [], any: [], ticket: 0n }
    nodes.set(wait.waiter, node)
    if (wait.isAlternative) node.any.push(wait)
    else node.all.push(wait)
    if (wait.ticket !== undefined && wait.ticket > node.ticket) node.ticket = wait.ticket
  }
  return nodes
}

/** Takes out who is not stuck: each once, with all whom that frees. */
function dropFree(nodes: Map<number, Node>): void {
  const waiters = new Map<number, number[]>()
  for (const [number, { all, any }] of nodes) {
    for (const { blocker } of [...all, ...any])
      waiters.set(blocker, [...(waiters.get(blocker) ?? []), number])
  }
  const look = [...nodes.keys()]
  for (let number = look.pop(); number !== undefined; number = look.pop()) {
    const node = nodes.get(number)
    if (!node || stuckBy(nodes, node).length > 0) continue
    nodes.delete(number)
    look.push(...(waiters.get(number) ?? []))
  }
}

/** The waits that keep a node stuck. */
function stuckBy(nodes: ReadonlyMap<number, Node>, { all, any }: Node): Wait[] {
  const isStuck = ({ blocker }: Wait) => nodes.has(blocker)
  return [...all.filter(isStuck), ...(any.every(isStuck) ? any : [])]
}

function reachable(nodes: ReadonlyMap<number, Node>, from: number): Set<number> {
  const seen = new Set<number>()
  const look = [from]
  for (let number = look.pop(); number !== undefined; number = look.pop()) {
    const node = nodes.get(number)
    if (!node || seen.has(number)) continue
    seen.add(number)
    look.push(...stuckBy(nodes, node).map(({ blocker }) => blocker))
  }
  return seen
}

/** The shortest way from the one that asks back to it. */
function pathBack(nodes: ReadonlyMap<number, Node>): Wait[] | undefined {
  const cameBy = new Map<number, Wait>()
  const look = [self]
  for (const number of look) {
    for (const wait of stuckBy(nodes, nodes.get(number) as Node)) {
      if (cameBy.has(wait.blocker)) continue
      cameBy.set(wait.blocker, wait)
      if (wait.blocker === self) return pathOf(cameBy)
      look.push(wait.blocker)
    }
  }
  return undefined
}

function pathOf(cameBy: ReadonlyMap<number, Wait>): Wait[] {
  const path: Wait[] = []
  let wait = cameBy.get(self)
  while (wait) {
    path.unshift(wait)
    wait = wait.waiter === self ? undefined : cameBy.get(wait.waiter)
  }
  return path
}
