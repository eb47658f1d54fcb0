/**
 * How many pairs came in the wrong order: of values that ought to rise, each that has a greater one before it, counted
 * with every such one. By merging, for there may be as many as all pairs.
 * @param {readonly number[]} values
 */
export function inversions(values) {
  return sortAndCount([...values]).count
}

/**
 * @param {number[]} values
 * @returns {{ sorted: number[], count: number }}
 */
function sortAndCount(values) {
  if (values.length < 2) return { sorted: values, count: 0 }
  const middle = values.length >> 1
  const left = sortAndCount(values.slice(0, middle))
  const right = sortAndCount(values.slice(middle))
  const sorted = []
  let count = left.count + right.count
  let taken = 0
  for (const value of right.sorted) {
    while (taken < middle && Number(left.sorted[taken]) <= value) sorted.push(Number(left.sorted[taken++]))
    count += middle - taken
    sorted.push(value)
  }
  return { sorted: [...sorted, ...left.sorted.slice(taken)], count }
}
