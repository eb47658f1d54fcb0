const began = performance.now()

/** Says what has just happened, with the seconds since the start. */
export function tell(text) {
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  console.log(`${seconds.padStart(5)} s  ${text}`)
}

export function heading(text) {
  console.log(`\n${text}`)
}

export const seconds = milliseconds => `${(milliseconds / 1000).toFixed(1)} s`
