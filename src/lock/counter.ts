import type { Wire } from '../database/lane.ts'
import { Asker } from './asker.ts'
import type { Desk } from './desk.ts'
import { Intake } from './intake.ts'
import { Returner } from './returner.ts'

/** Where some of the keys are asked for and given back, on connections that they do not share with the others. */
export class Counter {
  readonly intake: Intake
  readonly asker: Asker
  readonly returner: Returner

  /** @param areWaitedFor whether somebody waits for most of what is given back here */
  constructor(desk: Desk, askWire: Wire, returnWire: Wire, areWaitedFor: boolean) {
    this.intake = new Intake(desk, this)
    this.asker = new Asker(desk, this, askWire, areWaitedFor)
    this.returner = new Returner(desk, this, returnWire, areWaitedFor)
  }
}
