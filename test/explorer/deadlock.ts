/** Whether anybody waits for himself, by way of others. */
export function inCycle(stuck: ReadonlySet<number>, blockers: (actor: number) => readonly number[]): boolean {
  for (const actor of stuck) {
    const reached = new Set<number>()
    const next = [...blockers(actor)]
    for (let other = next.pop(); other !== undefined; other = next.pop()) {
      if (other === actor) return true
      if (reached.has(other)) continue
      reached.add(other)
      next.push(...blockers(other))
    }
  }
  return false
}
