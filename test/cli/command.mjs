// The command that the tests of `fencepost run` run: says what it is, what it is told, and what signals reach it.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { say } from '../support/worker.mjs'

const flags = process.argv.slice(2)
const who = flags.includes('forked') ? 'forked' : 'command'

// `stubborn`: it hears signals and goes on. Else they do to it what they do by default.
if (flags.includes('stubborn')) {
  for (const signal of [
    'SIGTERM',
    'SIGINT',
    'SIGHUP',
    'SIGQUIT',
    'SIGUSR1',
    'SIGUSR2',
    'SIGWINCH',
    'SIGCONT',
  ])
    process.on(signal, () => say('signal', { who, signal }))
}
// `leaves`: it ends at SIGTERM, with a code of its own.
if (flags.includes('leaves')) process.on('SIGTERM', () => process.exit(7))

if (who === 'command') {
  // `forks`: one more, that is as stubborn as can be and outlives its parent.
  if (flags.includes('forks'))
    spawn(process.execPath, [fileURLToPath(import.meta.url), 'forked', 'stubborn'], {
      stdio: ['ignore', 'inherit', 'inherit'],
    })
  const answers = {
    exit: ({ code }) => process.exit(code),
    echo: ({ text }) => say('echoed', { text }),
    flood: ({ bytes }) => {
      process.stderr.write(`${'x'.repeat(bytes)}\n`)
      say('flooded')
    },
  }
  createInterface({ input: process.stdin }).on('line', line => {
    const { name, ...fields } = JSON.parse(line)
    answers[name](fields)
  })
}
// The end of stdin is no reason to end: whoever kills the wrapper closes it.
setInterval(() => {}, 2 ** 30)

say(who === 'command' ? 'up' : 'forked', {
  pid: process.pid,
  ppid: process.ppid,
  key: process.env.FENCEPOST_KEY,
  token: process.env.FENCEPOST_TOKEN,
  level: process.env.FENCEPOST_LEVEL,
  identity: process.env.FENCEPOST_IDENTITY,
  url: process.env.DATABASE_URL,
  isTerminal: process.stdin.isTTY === true && process.stdout.isTTY === true,
})
