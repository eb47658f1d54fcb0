import { Command } from 'commander'
import type { Leader } from '../../election/leader.ts'
import { exitCode } from '../exit-codes.ts'
import { print } from '../output.ts'
import { asking, printJson, type SightFlags, withSightOptions } from '../sight/client.ts'
import { duration, table, visible } from '../table.ts'

interface LeaderFlags extends SightFlags {
  readonly watch?: true
}

/** `fencepost leader`: who leads, now or from now on. */
export function leaderVerb(finish: (code: number) => void): Command {
  const verb = new Command('leader')
    .description('Show who leads; exit 1 when nobody does.')
    .argument('<name>', 'the election: the whole key, namespace included')
    .option('--watch', 'go on, with a line for each term and each vacancy')
  return withSightOptions(verb).action(async (name: string, flags: LeaderFlags) => {
    const tell = (leader: Leader | null) => {
      if (flags.json) printJson({ schema: flags.schema, name, leader })
      else if (flags.watch) print(line(leader))
      else print(leader === null ? `nobody leads ${visible(name)}` : describe(name, leader))
    }
    await asking(verb, flags, async fp => {
      const election = fp.election(name)
      if (!flags.watch) {
        const leader = await election.leader()
        tell(leader)
        return finish(leader === null ? exitCode.failed : exitCode.ok)
      }
      const noReader = new AbortController()
      process.stdout.on('error', () => noReader.abort())
      for await (const leader of election.observe({ signal: noReader.signal })) tell(leader)
      finish(exitCode.ok)
    })
  })
}

function describe(name: string, leader: Leader): string {
  const { identity, value, token, since, renewedAt, ttl, owner } = leader
  return table(
    ['name', name],
    [
      ['identity', identity],
      ['value', value === null ? null : JSON.stringify(value)],
      ['token', token],
      ['owner', owner],
      ['since', since.toISOString()],
      ['renewed at', renewedAt.toISOString()],
      ['ttl', duration(ttl)],
    ],
  )
}

/** One line, for a log. */
function line(leader: Leader | null): string {
  if (leader === null) return 'vacant'
  const { token, identity, owner, value, since } = leader
  const fields = [`token ${token}`, identity, owner ?? '-', value === null ? '-' : JSON.stringify(value)]
  return visible([...fields, `since ${since.toISOString()}`].join('  '))
}
