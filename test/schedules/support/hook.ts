import type { Stage } from './stage.ts'

interface Hook {
  /** plpgsql that runs before the function has done anything. */
  readonly before?: string
  /** plpgsql that runs when its answer is there, in its transaction still. */
  readonly after?: string
}

/**
 * Puts a wrapper around one of the protocol's functions, which does something before or after it: what a stopped
 * backend or a slow disk does at a moment of its own choosing. Its arguments can be read by their names, qualified by
 * the function's. The answer takes it away again.
 */
export async function hook(
  stage: Stage,
  name: string,
  { before = '', after = '' }: Hook,
): Promise<() => Promise<void>> {
  const [found] = await stage.sql(
    `select pg_get_function_arguments(p.oid) as arguments, pg_get_function_result(p.oid) as result,
            pg_get_function_identity_arguments(p.oid) as identity, array_length(p.proargtypes, 1) as inputs,
            p.proargnames as names
       from pg_proc p where p.pronamespace = $1::regnamespace and p.proname = $2`,
    [quoted(stage.db.schema), name],
  )
  if (!found) throw new Error(`there is no function ${name}`)
  const { arguments: args, result, names, inputs } = found
  const given = names.slice(0, inputs).map((each: string) => `${name}.${each}`)
  const isSet = /^(SETOF|TABLE)/.test(result)
  // Its own name is how its body names its arguments, so it keeps that, in another schema.
  const call = `as_installed.${name}(${given})`
  await stage.sql('create schema if not exists as_installed')
  await stage.sql(`alter function $schema.${name} set schema as_installed`)
  await stage.sql(`
    create function $schema.${name}(${args}) returns ${result} language plpgsql as $body$
    #variable_conflict use_column
    declare
      answer_to_give ${isSet ? 'int' : result};
    begin
      ${before}
      ${isSet ? `return query select * from ${call};` : `answer_to_give := ${call};`}
      ${after}
      ${isSet ? '' : 'return answer_to_give;'}
    end $body$`)
  return stage.atEnd(async () => {
    await stage.sql(`drop function $schema.${name}`)
    await stage.sql(`alter function as_installed.${name} set schema $schema`)
  })
}

const quoted = (schema: string) => `"${schema.replaceAll('"', '""')}"`

/** plpgsql that stops here as long as somebody holds the gate shut. */
export const stopAtGate = 'perform pg_advisory_xact_lock_shared(7007);'

/** The same, for those connections alone that have `set test.stops = 'on'`. */
export const stopAtGateIfTold = `if current_setting('test.stops', true) = 'on' then ${stopAtGate} end if;`

/** Shuts the gate; the answer opens it. Held by a connection of its own, so that only this opens it. */
export async function shutGate(stage: Stage): Promise<() => Promise<void>> {
  const keeper = await stage.actor('gatekeeper', null)
  await keeper.sql('select pg_advisory_lock(7007)')
  return stage.atEnd(() => keeper.end())
}

/** How many backends stand at the shut gate. */
export async function atGate(stage: Stage): Promise<number> {
  const [row] = await stage.sql(`
    select count(*)::int as count from pg_locks
     where locktype = 'advisory' and objid = 7007 and not granted
       and database = (select oid from pg_database where datname = current_database())`)
  return row?.count ?? 0
}
