import { spawn } from 'node:child_process'
import type { Socket } from 'node:net'

export interface Leash {
  /** Everything was cleaned up by its owner: nothing is left to do when this process ends. */
  release(): void
}

// Started before the server is: where this process dies during a start, the pid file appears late, hence the
// second look after the folder is gone. CONT comes after the signal, for a server that was stopped. A server that
// nobody reaps stays in the process table, so its end is told by the pid file that it removes.
const script = `
read -r released && exit 0
attempt=0
while [ $attempt -lt 3 ]; do
  pid=$(head -n 1 "$1" 2>/dev/null)
  if [ -n "$pid" ]; then
    kill -s "$2" "$pid" && kill -s CONT "$pid"
    waited=0
    while [ -e "$1" ] && [ $waited -lt 100 ]; do sleep 0.1; waited=$((waited + 1)); done
    [ -e "$1" ] && kill -s KILL "$pid"
  fi
  rm -rf "$3"
  attempt=$((attempt + 1))
  sleep 0.3
done 2>/dev/null
`

/**
 * Ties a server to the life of this process, however that ends, SIGKILL included: a small shell in a session of
 * its own reads from a pipe that only this process holds, and at its end signals the server and deletes `folder`.
 */
export function leash(pidFile: string, signal: 'QUIT' | 'INT' | 'TERM', folder: string): Leash {
  const shell = spawn('/bin/sh', ['-c', script, 'leash', pidFile, signal, folder], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  shell.unref()
  const pipe = shell.stdin as Socket
  pipe.on('error', () => {})
  pipe.unref()
  return { release: () => void pipe.end('released\n') }
}
