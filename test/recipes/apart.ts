import { existsSync } from 'node:fs'

/** `npm ci --prefix test/recipes/apart` installs them; .ci/run does, and then no test of theirs may be left out. */
export const hasRecipes =
  process.env.FENCEPOST_TEST_RECIPES !== undefined ||
  existsSync(new URL('apart/node_modules', import.meta.url))
