// Faults that strike inside a client's process: its wall clock, and the notifications that reach it.
import pg from 'pg'

const rightly = Date.now
let offset = 0
Date.now = () => rightly() + offset

/** @param {number} ms by which the wall clock is ahead from now on */
export function moveWall(ms) {
  offset = ms
}

let deafUntil = 0
const { emit } = pg.Client.prototype
pg.Client.prototype.emit = function (event, ...values) {
  if (event !== 'notification' || performance.now() > deafUntil) return emit.call(this, event, ...values)
  deaf.dropped++
  return true
}

/** Notifications are lost for so long. @param {number} ms */
export function deaf(ms) {
  deafUntil = performance.now() + ms
}
deaf.dropped = 0
