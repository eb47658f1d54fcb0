/**
 * Stopping and going on. While we stand still nothing is renewed, so the lock may be lost by the time we go on: `resume`
 * is to look before the command goes on as well.
 *
 * @param suspend for a command in a session of its own: the stop of a terminal (ctrl-Z) does not reach it there
 * @returns what ends it
 */
export function followJobControl(resume: () => void, suspend?: () => void): () => void {
  const stop = () => {
    suspend?.()
    process.kill(process.pid, 'SIGSTOP')
  }
  if (suspend) process.on('SIGTSTP', stop)
  process.on('SIGCONT', resume)
  return () => {
    process.off('SIGTSTP', stop)
    process.off('SIGCONT', resume)
  }
}
