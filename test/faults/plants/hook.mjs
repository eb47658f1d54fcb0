// Preloaded into a worker: takes one protection out of the client's code as it is loaded.
import { register } from 'node:module'

register('./loader.mjs', import.meta.url)
