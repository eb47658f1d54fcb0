import { type Command, Option } from 'commander'

/** `--url`, and the variable that stands for it. */
export function urlOption(): Option {
  return new Option('--url <url>', 'the database: a connection string').env('DATABASE_URL')
}

/** No default: a lock in a database that nobody else knows of would protect nothing. Ends with a usage error. */
export function requireUrl(command: Command, url: string | undefined): string {
  return url || command.error('error: no database named: give --url URL, or set DATABASE_URL')
}
