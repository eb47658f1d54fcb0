-- Up Migration
--
-- Who waits for whom. The nodes are requests: one in line, or one by which a section of somebody's code holds its lock. What
-- is asked for inside a section says so (`context`), and the section is over no sooner than that.
--   in line   waits for who holds the key against it, or against one before it, and for those before it in line; for permits, for
--             any one of their holders
--   a section waits for what is asked for in it, and for the sections inside
-- A lock that was acquired by hand belongs to no section, and waits for nothing. A ticket that names no section, and wants no other
-- key, is not walked to: whoever stands behind it waits for what it waits for. So does a reader behind a writer that waits for readers.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

create index waiters_context on waiters (context) where context is not null;
create index locks_context on locks (context) where context is not null;
create index holders_context on holders (context) where context is not null;

-- What one node waits for. `alternative`: for any one of these, not for all.
create function blockers_of(node uuid)
  returns table (ticket bigint, key text, blocker uuid, alternative boolean)
  language sql stable set enable_seqscan = off as $$
  select w.ticket, w.key, l.request, false
    from waiters w join locks l on l.key = w.key
   where w.request = node and l.session is not null and l.request is not null and not l.released
  union all
  select w.ticket, w.key, h.request, w.mode is not distinct from 'permits'
    from waiters w join locks l on l.key = w.key join holders h on h.key = w.key
   where w.request = node and not h.released
     and (w.mode is distinct from 'shared'
          or exists (select from waiters a where a.key = l.key and a.ticket > coalesce(l.served, 0) and a.ticket < w.ticket
                                             and a.mode is distinct from 'shared'))
  union all
  select w.ticket, w.key, a.request, false
    from waiters w join locks l on l.key = w.key
    join waiters a on a.key = l.key and a.ticket > coalesce(l.served, 0) and a.ticket < w.ticket
   where w.request = node and (a.context is not null or a.wide)
     and not (w.mode is not distinct from 'shared' and a.mode is not distinct from 'shared')
  union all
  select null, null, w.request, false from waiters w where w.context = node
  union all
  select null, null, l.request, false from locks l where l.context = node and l.session is not null
  union all
  select null, null, h.request, false from holders h where h.context = node
$$;

-- All that a request in line waits for, however far away, as of one snapshot: for its client, which looks whether that comes back to
-- it. To be asked after the call that queued it has committed, for two newcomers would miss each other before, and now and then
-- while it waits. The nodes are numbered, for request ids prove whose grant it is; the one that asks is 0.
create function waits_for(session uuid, request uuid)
  returns table (waiter bigint, ticket bigint, key text, owner text, blocker bigint, alternative boolean)
  language sql stable security definer set search_path from current set enable_seqscan = off as $$
  with recursive reached(node) as (
    select w.request from waiters w where w.request = waits_for.request and w.session is not distinct from waits_for.session
    union
    select b.blocker from reached r cross join lateral blockers_of(r.node) b),
  numbered as (
    select r.node, row_number() over (order by r.node <> waits_for.request, r.node) - 1 as number from reached r)
  select n.number, b.ticket, b.key, (select s.owner from waiters w join sessions s on s.id = w.session where w.request = n.node limit 1),
         m.number, b.alternative
    from numbered n cross join lateral blockers_of(n.node) b join numbered m on m.node = b.blocker
$$;

update cluster set version = 12;
select close_to_public();

-- Down Migration
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);
select refuse_while_in_use();
drop function waits_for(uuid, uuid);
drop function blockers_of(uuid);
drop index holders_context, locks_context, waiters_context;
update cluster set version = 11;
