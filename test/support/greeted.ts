import pg from 'pg'

/** A connection whose greeting names another process than the one that answers, as a pooler's does. */
export class GreetedByAnother extends pg.Client {
  get processID(): number {
    return 0
  }
  set processID(_: number) {}
}
