/** Of the random commands. FENCEPOST_SEED repeats a run that failed; it is printed either way. */
export const seed: number = Number(process.env.FENCEPOST_SEED ?? Math.floor(Math.random() * 2 ** 31))
console.log(`FENCEPOST_SEED=${seed}`)
