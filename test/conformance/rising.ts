/** Whether each is greater than the one before. */
export function isRising(tokens: readonly bigint[]): boolean {
  return tokens.every((token, i) => i === 0 || token > (tokens[i - 1] ?? token))
}
