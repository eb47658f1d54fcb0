import pg from 'pg'

/**
 * Writes down, in the database itself, which request got which ticket and which token: neither is public. A request whose
 * key was free has no ticket. A grant may cover those that come next in line: the i-th of `followers`, where the schema
 * has it, holds under token + i. If one is granted twice (the process that was to pass it on has gone), the last counts.
 */
const AUDIT = `
create schema audit;
create table audit.tickets (request uuid primary key, ticket bigint not null);
create table audit.grants (request uuid primary key, token bigint not null);
create function audit.ticket() returns trigger language plpgsql as $$
begin
  insert into audit.tickets values (new.request, new.ticket);
  return null;
end $$;
create function audit.grant() returns trigger language plpgsql as $$
begin
  if new.request is null then return null; end if;
  insert into audit.grants
    select new.request, new.token
    union all
    select f.request::uuid, new.token + f.i
      from jsonb_array_elements_text(coalesce(nullif(to_jsonb(new)->'followers', 'null'), '[]')) with ordinality f(request, i)
    on conflict (request) do update set token = excluded.token;
  return null;
end $$;
create trigger audit after insert on fencepost.waiters for each row execute function audit.ticket();
create trigger audit after insert or update on fencepost.locks for each row execute function audit.grant();
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
