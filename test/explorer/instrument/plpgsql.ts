/** A statement of a plpgsql body: where it begins, and its text up to `;`, `then` or `loop`. */
export interface Statement {
  readonly at: number
  readonly text: string
}

interface Token {
  readonly at: number
  readonly end: number
  readonly word: string
}

/**
 * The executable statements of a function's body, in the order of the text, those inside of `if` and loops included.
 * It knows as much of plpgsql as the migrations use, and throws at anything else rather than overlook a statement.
 */
export function statementsOf(body: string): Statement[] {
  return new Parser(body).parse()
}

/** The text without comments, in one line. */
export function plain(text: string): string {
  return text
    .replaceAll(/--[^\n]*|\/\*[\s\S]*?\*\//g, '')
    .replaceAll(/\s+/g, ' ')
    .trim()
}

const lexemes = /\s+|--[^\n]*|\/\*[\s\S]*?\*\/|(?<word>'(?:[^']|'')*'|[A-Za-z_]\w*|\d+|::|:=|<>|<=|>=|[^\s])/y

function tokensOf(text: string): Token[] {
  const tokens: Token[] = []
  lexemes.lastIndex = 0
  while (lexemes.lastIndex < text.length) {
    const at = lexemes.lastIndex
    const match = lexemes.exec(text)
    if (!match) throw new Error(`plpgsql: cannot read ${text.slice(at, at + 40)}`)
    const word = match.groups?.word
    if (word !== undefined) tokens.push({ at, end: lexemes.lastIndex, word: word.toLowerCase() })
  }
  return tokens
}

const unknown = new Set(['declare', 'exception', 'case', 'execute', 'while', 'begin'])

class Parser {
  readonly #body: string
  readonly #tokens: Token[]
  readonly #found: Statement[] = []
  #next = 0

  constructor(body: string) {
    this.#body = body
    this.#tokens = tokensOf(body)
  }

  parse(): Statement[] {
    // What a declaration evaluates is a call at most; the callee has statements of its own.
    while (this.#word() !== 'begin') this.#next++
    this.#next++
    this.#list()
    this.#expect('end')
    return this.#found
  }

  #list(): void {
    while (!['end', 'else', 'elsif'].includes(this.#word())) this.#statement()
  }

  #statement(): void {
    const first = this.#word()
    if (unknown.has(first)) throw new Error(`plpgsql: ${first} is not known to the explorer: ${this.#rest()}`)
    if (first === 'if') return this.#conditional()
    if (first === 'loop') return this.#loop()
    if (first === 'for' || first === 'foreach') {
      this.#record('loop')
      return this.#loop()
    }
    this.#record(';')
    this.#next++
  }

  #conditional(): void {
    this.#record('then')
    this.#next++
    this.#list()
    while (this.#word() === 'elsif') {
      // There is no place for a gate before it.
      if (/\b(select|from)\b/i.test(this.#header('then')))
        throw new Error(`plpgsql: elsif with a query: ${this.#rest()}`)
      this.#next++
      this.#list()
    }
    if (this.#word() === 'else') {
      this.#next++
      this.#list()
    }
    this.#expect('end', 'if', ';')
  }

  #loop(): void {
    this.#expect('loop')
    this.#list()
    this.#expect('end', 'loop', ';')
  }

  #record(closing: string): void {
    const at = this.#at()
    this.#found.push({ at, text: this.#header(closing) })
  }

  /** Reads on to `closing` outside of parentheses and of `case … end`, and answers what was read. */
  #header(closing: string): string {
    const at = this.#at()
    let depth = 0
    for (; ; this.#next++) {
      const word = this.#word()
      if (depth === 0 && word === closing) return this.#body.slice(at, this.#at())
      if (word === '(' || word === 'case') depth++
      if (word === ')' || word === 'end') depth--
    }
  }

  #expect(...words: string[]): void {
    for (const word of words) {
      if (this.#word() !== word) throw new Error(`plpgsql: want ${word}, got ${this.#rest()}`)
      this.#next++
    }
  }

  #word(): string {
    const token = this.#tokens[this.#next]
    if (!token) throw new Error('plpgsql: the body ends too early')
    return token.word
  }

  #at(): number {
    return this.#tokens[this.#next]?.at ?? this.#body.length
  }

  #rest(): string {
    return this.#body.slice(this.#at(), this.#at() + 80)
  }
}
