export const name = 'writer'

/** How long a leader outlives its process, in milliseconds: its heirs wait for that. The default is 30 s. */
export const ttl = 3_000
