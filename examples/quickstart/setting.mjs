/** What the three workers contend for. */
export const key = 'counter'

/** How long a lock outlives its holder, in milliseconds: the heirs wait for that. The default is 30 s. */
export const ttl = 3_000

/** The longest time between two looks of a waiter, in milliseconds: by then at the latest it has noticed. */
export const poll = 1_000

export const names = ['Ada', 'Ben', 'Cleo']
