import pg from 'pg'

/**
 * Writes down, in the database itself, which request got which ticket and which token: neither is public. A request whose
 * key was free has no ticket. In a run a ticket carries the token under which its turn comes; where the run ends before
 * that, it is granted again, so of several tokens the last counts.
 */
const AUDIT = `
create schema audit;
create table audit.tickets (request uuid primary key, ticket bigint not null);
create table audit.grants (request uuid primary key, token bigint not null);
create function audit.granted(request uuid, token bigint) returns void language sql as $$
  insert into audit.grants values (granted.request, granted.token)
    on conflict (request) do update set token = excluded.token
$$;
create function audit.ticket() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then insert into audit.tickets values (new.request, new.ticket); end if;
  -- A schema without runs has no such column.
  if to_jsonb(new)->>'token' is not null then
    perform audit.granted(new.request, (to_jsonb(new)->>'token')::bigint);
  end if;
  return null;
end $$;
create function audit.lock() returns trigger language plpgsql as $$
begin
  if new.request is not null then perform audit.granted(new.request, new.token); end if;
  return null;
end $$;
create trigger audit after insert or update on fencepost.waiters for each row execute function audit.ticket();
create trigger audit after insert or update on fencepost.locks for each row execute function audit.lock();
`

/**
 * Grants in the order of their tokens, the first so many of them, each with its ticket if it had one.
 * In the order of tokens they held the key; in the order of tickets they had come to the line.
 */
const READ = `select t.ticket::float8 from audit.grants g left join audit.tickets t using (request)
  order by g.token limit $1`

/** @param {string} url of a migrated database */
export async function startAudit(url) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(AUDIT)
  return {
    /** Tickets by the order of grants; null: it had none. @param {number} most */
    async read(most) {
      const { rows } = await client.query({ text: READ, values: [most], rowMode: 'array' })
      return rows.map(([ticket]) => /** @type {number | null} */ (ticket))
    },
    end: () => client.end(),
  }
}
