/** Numbers from 0 up to 1 that a seed decides: the same seed, the same numbers. */
export function randomBy(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    // xorshift; 0 would stay 0
    state = state === 0 ? 1 : state
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    state >>>= 0
    return state / 2 ** 32
  }
}
