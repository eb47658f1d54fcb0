/**
 * The order of one round. Each round starts one further than the last, and every second one runs backwards, so that
 * nobody always runs first, or always in the dust that the same neighbour left on the machine.
 * @template What
 * @param {readonly What[]} all
 * @param {number} round from 0
 */
export function inTurn(all, round) {
  const first = round % all.length
  const order = [...all.slice(first), ...all.slice(0, first)]
  return round % 2 === 0 ? order : order.reverse()
}
