import { describe, expect, test } from 'vitest'
import type { ElectionOptions, LeaderCallback } from '../../src/index.ts'
import { Fencepost } from '../../src/index.ts'

// Nothing here gets as far as connecting.
const fp = new Fencepost({ connectionString: 'postgres://127.0.0.1:1/x', namespace: 'ns', ttl: '10s' })

const circular: Record<string, unknown> = {}
circular.self = circular

describe('an election is refused', () => {
  test.each(
    Object.entries({
      'a ttl below a second': { ttl: 999 },
      'a ttl that is no duration': { ttl: 'soon' },
      'a value over 900 bytes': { value: 'x'.repeat(899) },
      'a value with a NUL': { value: { a: '\0' } },
      'a value with half a surrogate pair': { value: ['\ud800'] },
      'a value that is no JSON': { value: () => {} },
      'a value in a circle': { value: circular },
      'a renew deadline below half of the ttl': { renewDeadline: '4s' },
      'a renew deadline after the end of trust': { renewDeadline: 9_501 },
      'a renew deadline by a ttl of its own': { ttl: '20s', renewDeadline: '9s' },
      'a takeover that there is not': { takeover: 'slow' },
      'a grace without takeover fast': { grace: '3s' },
      'a grace that is no duration': { takeover: 'fast', grace: 'soon' },
      'a grace of another kind': { takeover: 'fast', grace: {} },
      'a grace below half a second': { takeover: 'fast', grace: 499 },
      'a grace above the ttl': { takeover: 'fast', grace: 10_001 },
      'a grace above a ttl of its own': { takeover: 'fast', ttl: '2s', grace: '3s' },
      'takeover fast with a renew deadline': { takeover: 'fast', renewDeadline: '6s' },
      'another thing to do on a loss': { onLost: 'throw' },
    }),
  )('%s', (_, options) => {
    expect(() => fp.election('e', options as ElectionOptions)).toThrow(
      expect.objectContaining({ code: 'bad_option' }),
    )
  })

  test('by a message that says what there is', () => {
    const refused = (options: object) => () => fp.election('e', options as ElectionOptions)
    expect(refused({ takeover: 'slow' })).toThrow("takeover: want 'ttl' or 'fast'")
    expect(refused({ takeover: 'fast', grace: 1 })).toThrow('grace: want 500 to 10000 ms')
    expect(refused({ grace: '3s' })).toThrow("grace: goes with takeover: 'fast'")
    expect(refused({ onLost: 'x' })).toThrow("onLost: want 'exit'")
    expect(refused({ renewDeadline: 1 })).toThrow('renewDeadline: want 5000 to 9500 ms')
    expect(refused({ value: 'x'.repeat(999) })).toThrow('value: want JSON of at most 900 bytes')
  })

  test.each(['', 'a\0b', 5, null, undefined, 'x'.repeat(998)])('the name %j', name => {
    expect(() => fp.election(name as string)).toThrow(expect.objectContaining({ code: 'bad_key' }))
  })

  test('options that are none', () => {
    expect(() => fp.election('e', null as unknown as ElectionOptions)).toThrow('options: want an object')
  })
})

test('what fits is taken, to the last byte', () => {
  fp.election('x'.repeat(997))
  fp.election('e', { value: 'x'.repeat(898), renewDeadline: 9_500, takeover: 'ttl', onLost: 'exit' })
  fp.election('e', { renewDeadline: '5s', ttl: undefined, value: undefined })
  fp.election('e', { takeover: 'fast' })
  fp.election('e', { takeover: 'fast', ttl: '1s', grace: undefined, renewDeadline: undefined })
  fp.election('e', { takeover: 'fast', grace: 500 })
  fp.election('e', { takeover: 'fast', grace: '10s' })
})

describe('a call is refused', () => {
  const election = fp.election('e')
  const refused = { code: 'bad_option' }

  test('lead without a function, with a signal that is none, with an onError that is none', async () => {
    const none = undefined as unknown as LeaderCallback
    await expect(election.lead(none)).rejects.toMatchObject(refused)
    const signal = new AbortController() as unknown as AbortSignal
    await expect(election.lead(() => {}, { signal })).rejects.toMatchObject(refused)
    const onError = 'log' as unknown as () => void
    await expect(election.lead(() => {}, { onError })).rejects.toMatchObject(refused)
    await expect(election.lead(() => {}, null as never)).rejects.toMatchObject(refused)
  })

  test('campaign with a timeout or a signal that is none; nothing is campaigning after that', async () => {
    await expect(election.campaign({ timeout: -1 })).rejects.toMatchObject(refused)
    await expect(election.campaign({ signal: 5 as never })).rejects.toMatchObject(refused)
    await expect(election.campaign(null as never)).rejects.toMatchObject(refused)
    await expect(election.campaign({ timeout: 0 })).rejects.toMatchObject({ code: 'unreachable' })
  })

  test('observe with a signal that is none', () => {
    expect(() => election.observe({ signal: {} as AbortSignal })).toThrow(expect.objectContaining(refused))
    expect(() => election.observe(null as never)).toThrow(expect.objectContaining(refused))
  })
})

test('a value is as it was when the election was made', async () => {
  const value = { url: 'before' }
  const election = fp.election('e', { value })
  value.url = 'x'.repeat(5_000)
  await expect(election.campaign({ timeout: 0 })).rejects.toMatchObject({ code: 'unreachable' })
})
