import { setTimeout as pause } from 'node:timers/promises'
import { Etcd3 } from 'etcd3'
import { monotonic } from '../harness/clock.mjs'
import { packageVersion } from '../peers/support/peer.mjs'

/** @type {any} */
let campaign
let leads = false
let letGo = () => {}

/**
 * As its documentation has it: leads when it is elected, until it resigns or is told of an error, and stands again then. It
 * has no handle that could be asked, so that what it was told last is what it knows. Its writes nothing guards.
 * @type {import('../harness/candidate.mjs').Candidate}
 */
export const candidate = {
  name: 'etcd3 election()',
  version: `etcd3 ${packageVersion('etcd3')}`,
  settings: 'campaign, resign on SIGTERM; writes by put, unguarded',
  needs: 'etcd',
  stand({ url, election: name, ttl, every = 1000 }, tells) {
    const etcd = new Etcd3({ hosts: url })
    process.once('SIGTERM', async () => {
      await candidate.resign().catch(() => {})
      process.exit()
    })
    void (async () => {
      const election = etcd.election(name, ttl / 1000)
      for (;;) {
        campaign = election.campaign('')
        await new Promise(resolve => {
          campaign.on('elected', () => {
            leads = true
            resolve(undefined)
          })
          campaign.on('error', resolve)
          letGo = () => resolve(undefined)
        })
        campaign.on('error', () => {
          leads = false
        })
        if (leads) tells.elected()
        while (leads) {
          const began = monotonic()
          try {
            await etcd.put(`led/${name}`).value(String(began))
            tells.wrote({ began })
          } catch {
            // It is told of what lasts.
          }
          await pause(every)
        }
        await campaign.resign().catch(() => {})
      }
    })()
  },
  isLeader: () => leads,
  async resign() {
    leads = false
    letGo()
    await campaign.resign()
  },
}

/**
 * @param {string} url
 * @returns {Promise<import('../harness/candidate.mjs').Record>}
 */
export async function openRecord(url) {
  const etcd = new Etcd3({ hosts: url })
  return {
    standing: name => etcd.getAll().prefix(`election/${name}/`).count(),
    since: async () => Number.NaN,
    account: async () => ({ terms: Number.NaN, writes: Number.NaN, beside: Number.NaN }),
    async end() {
      await etcd.delete().all()
      etcd.close()
    },
  }
}
