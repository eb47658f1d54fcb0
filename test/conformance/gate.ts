/** A promise that a test settles by hand. */
export class Gate {
  open: () => void = () => {}
  readonly opened: Promise<void> = new Promise(resolve => {
    this.open = resolve
  })
}
