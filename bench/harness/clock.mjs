/** Milliseconds by a clock that all processes of this machine share, and that has more digits than Date.now(). */
export const now = () => performance.timeOrigin + performance.now()

/** Milliseconds by the kernel's clock, exact from one process to the next: whose sections overlap is told by it. */
export const monotonic = () => Number(process.hrtime.bigint()) / 1e6
