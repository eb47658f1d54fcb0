import pg from 'pg'

interface CopyConnection {
  sendCopyFromChunk(chunk: Buffer): void
  endCopyFrom(): void
}

/** A `COPY … FROM STDIN`: the driver speaks the protocol, and leaves the data to its caller. */
export function copyIn(client: pg.ClientBase, text: string, data: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const query = new pg.Query(text)
    Object.assign(query, {
      callback: (error: Error | null) => (error ? reject(error) : resolve()),
      handleCopyInResponse: (connection: CopyConnection) => {
        connection.sendCopyFromChunk(Buffer.from(data))
        connection.endCopyFrom()
      },
    })
    client.query(query)
  })
}
