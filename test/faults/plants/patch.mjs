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

/** A statement as it is. */
export const statement = text => cluster => cluster.query(text)
