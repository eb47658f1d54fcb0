import { type Command, Option } from 'commander'
import pg from 'pg'

/** `--url`, and the variable that stands for it. */
export function urlOption(): Option {
  return new Option('--url <url>', 'the database: a connection string').env('DATABASE_URL')
}

export function schemaOption(): Option {
  return new Option('--schema <name>', 'where `fencepost migrate` has put the tables').default('fencepost')
}

/**
 * Ends with a usage error where there is none, or none that can be read. There is no default: a lock in a database that
 * nobody else knows of would protect nothing.
 */
export function requireUrl(command: Command, url: string | undefined): string {
  if (!url) return command.error('error: no database named: give --url URL, or set DATABASE_URL')
  try {
    new pg.Client(url)
  } catch (error) {
    command.error(`error: the connection string cannot be read: ${(error as Error).message}`)
  }
  return url
}
