import fc from 'fast-check'

/** What means something to SQL, to JSON, to arrays written as text, to a format, to an object. */
const words = [
  ...[
    "'",
    '"',
    '\\',
    '`',
    '$$',
    '$1',
    '$2',
    '$fencepost$',
    '$migration$',
    '--',
    ';',
    '/*',
    '*/',
    '::text',
    '||',
  ],
  ...[
    '%',
    '%s',
    '%I',
    '%1$I',
    '{',
    '}',
    '{}',
    '[',
    ']',
    ',',
    ':',
    '(',
    ')',
    '"",""',
    '{"',
    '"}',
    '\\"',
    '\\\\',
  ],
  ...['NULL', 'null', 'true', '0', '[null]', '{"a":1}', '\\u0000', '\\x00', '\\0', '&', '?', '#', '=', '~'],
  ...[
    '\n',
    '\r\n',
    '\t',
    ' ',
    '\u0001',
    '\u001b[2J',
    '\u007f',
    '\u00a0',
    '\u2028',
    '\u202e',
    '\ufeff',
    '\uffff',
  ],
  ...[
    'é',
    'e\u0301',
    'ß',
    'ẞ',
    'İ',
    '語',
    '😀',
    '👩‍👩‍👧',
    '\u{10ffff}',
    '__proto__',
    'constructor',
    'toString',
  ],
  ...[
    "'; drop table canary; --",
    "'); drop table canary; --",
    '"; drop table canary; --',
    '$$; drop table canary; $$',
  ],
  ...[
    "\\'; drop table canary; --",
    "E'\\'' ",
    '"}\'); drop table canary; --',
    '"pg_catalog"',
    'public.canary',
  ],
]

/** Text that everything that takes text must take: no NUL, no half of a surrogate pair. */
export function hostileText(most: number, least = 1): fc.Arbitrary<string> {
  const part = fc.oneof(
    { weight: 5, arbitrary: fc.constantFrom(...words) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 4 }) },
    { weight: 1, arbitrary: fc.string({ maxLength: 6 }) },
  )
  return fc
    .array(part, { minLength: 1, maxLength: 8 })
    .map(parts => cut(parts.join('').replaceAll('\0', ''), most))
    .filter(text => Buffer.byteLength(text) >= least)
}

/** Text with one character in it that the database cannot keep. */
export const impossibleText: fc.Arbitrary<string> = fc
  .tuple(hostileText(40, 0), fc.constantFrom('\0', '\ud800', '\udfff'), hostileText(40, 0))
  .map(([before, bad, after]) => before + bad + after)
  .filter(text => text.includes('\0') || !(text as string & { isWellFormed(): boolean }).isWellFormed())

/** Keys of one batch, all different, among them some that differ by little. */
export const hostileKeys: fc.Arbitrary<string[]> = fc
  .tuple(fc.array(hostileText(300), { minLength: 1, maxLength: 14 }), fc.array(fc.nat(), { maxLength: 6 }))
  .map(([keys, picks]) => {
    const near = picks.map(
      (pick, i) => nearly[i % nearly.length]?.(keys[pick % keys.length] as string) as string,
    )
    return [...new Set([...keys, ...near])].filter(key => key !== '')
  })

const nearly: ((text: string) => string)[] = [
  text => `${text} `,
  text => text.normalize(text.normalize('NFC') === text ? 'NFD' : 'NFC'),
  text => text.replaceAll(/["'\\]/g, '$&$&'),
  text => text.replaceAll('\\', ''),
  text => text.toUpperCase(),
  text => `"${text}"`,
]

/** Up to 1,000 bytes of it as JSON, with names as bad as its values. */
export const hostileJson: fc.Arbitrary<unknown> = fc
  .letrec(tie => ({
    any: fc.oneof(
      { maxDepth: 3 },
      hostileText(60, 0),
      fc.constantFrom(null, true, false, 0, -1, 1e300, 5e-324, 2 ** 53),
      fc.array(tie('any'), { maxLength: 4 }),
      fc
        .array(fc.tuple(hostileText(20, 0), tie('any')), { maxLength: 4 })
        .map(entries => Object.fromEntries(entries)),
    ),
  }))
  .any.filter(value => Buffer.byteLength(JSON.stringify(value)) <= 1_000)

/** The same for values that are equal, in whatever order their names come. */
export function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([name, each]) => [name, canonical(each)])
  return { entries: entries.sort(([a], [b]) => ((a as string) < (b as string) ? -1 : 1)) }
}

function cut(text: string, most: number): string {
  let kept = ''
  for (const character of text) {
    if (Buffer.byteLength(kept + character) > most) break
    kept += character
  }
  return kept
}
