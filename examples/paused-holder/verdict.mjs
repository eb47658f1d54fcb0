import { ways } from './ways.mjs'

/**
 * What a run shows.
 *
 * @param figures by way: how many updates were acknowledged, and how many of them lost
 * @returns {{ code: 0 | 1 | 2, what: string }}
 */
export function verdict(figures) {
  const exact = Object.keys(ways).filter(name => ways[name].isExact)
  const failed = exact.filter(name => figures[name].lost > 0)
  if (failed.length > 0) return { code: 1, what: `NOT exact: ${failed.join(', ')}` }
  const idle = exact.filter(name => figures[name].acknowledged === 0)
  if (idle.length > 0) {
    return {
      code: 2,
      what: `Nothing was acknowledged, so nothing is shown, of: ${idle.join(', ')}. Try --seconds 30.`,
    }
  }
  if (figures.bare.lost <= 0) {
    return {
      code: 2,
      what: 'The bare lease lost nothing this time: this run proves nothing. Try --seconds 30.',
    }
  }
  return {
    code: 0,
    what: 'A lease alone does not keep a holder out who stood still; what guards the data does.',
  }
}
