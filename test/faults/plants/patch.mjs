/**
 * A change of a live SQL function: `find` replaced by `replace`. It fails loudly where the text is gone.
 *
 * @param {string} name
 * @param {string | RegExp} find
 * @param {string} replace
 */
export function patch(name, find, replace) {
  return async cluster => {
    const rows = await cluster.query(
      `select pg_get_functiondef(p.oid) as text from pg_proc p
        where p.pronamespace = 'fencepost'::regnamespace and p.proname = $1`,
      [name],
    )
    if (rows.length !== 1) throw new Error(`plant: there are ${rows.length} functions ${name}`)
    const changed = rows[0].text.replace(find, () => replace)
    if (changed === rows[0].text) throw new Error(`plant: the function ${name} no longer has ${find}`)
    // Names in a function without a search path of its own are the schema's.
    await cluster.query(`set search_path = fencepost, pg_temp; ${changed}`)
  }
}

/**
 * A race that is there, and seldom lost: what happens in between takes up to 5 ms. It breaks nothing by itself.
 *
 * @param {string} moment as a trigger has it
 * @param {string} condition of the row
 */
export const slowed = (moment, condition) =>
  statement(`create or replace function audit.dawdle() returns trigger language plpgsql as
               'begin perform pg_sleep(random() * 0.005); return new; end';
             create trigger dawdles ${moment} for each row when (${condition}) execute function audit.dawdle()`)

/** A statement as it is. */
export const statement = text => cluster => cluster.query(text)
