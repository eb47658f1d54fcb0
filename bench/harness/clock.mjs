/** Milliseconds by a clock that all processes of this machine share, and that has more digits than Date.now(). */
export const now = () => performance.timeOrigin + performance.now()
