import { join } from 'node:path'
import { freePorts, until } from './programs.mjs'

/** Where Patroni's nodes agree on who leads: etcd members on loopback. */
export class Etcd {
  /** @type {{ name: string, site: number, client: string, peer: string, program: any }[]} */
  members = []
  #programs
  #folder
  #sites

  /** @param {any} programs @param {string} folder @param {any} [sites] a member in each */
  constructor(programs, folder, sites) {
    this.#programs = programs
    this.#folder = folder
    this.#sites = sites
  }

  /** @param {number} count */
  async start(count) {
    const ports = await freePorts(2 * count)
    for (let i = 0; i < count; i++) {
      const host = this.#sites?.address(i + 1) ?? '127.0.0.1'
      const [client, peer] = [`${host}:${ports[2 * i]}`, `${host}:${ports[2 * i + 1]}`]
      this.members.push({ name: `etcd${i + 1}`, site: i + 1, client, peer, program: undefined })
    }
    for (const member of this.members) this.startMember(member)
    await until(async () => (await this.leader()) !== undefined, 'etcd has a leader', 30_000)
  }

  startMember(member) {
    const { name, site } = member
    const [client, peer] = [`http://${member.client}`, `http://${member.peer}`]
    const args = [
      ...['--name', name, '--data-dir', join(this.#folder, name), '--log-level', 'warn'],
      ...['--listen-client-urls', client, '--advertise-client-urls', client],
      ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer],
      ...['--initial-cluster', this.members.map(one => `${one.name}=http://${one.peer}`).join(',')],
    ]
    member.program = this.#sites
      ? this.#programs.start(name, ...this.#sites.command(site, 'etcd', args), {}, {})
      : this.#programs.start(name, 'etcd', args)
  }

  /** For Patroni. */
  get hosts() {
    return this.members.map(({ client }) => client).join(',')
  }

  /** The member that leads; undefined: none does. */
  async leader() {
    for (const member of this.members.filter(({ program }) => program.isRunning)) {
      const answer = await fetch(`http://${member.client}/v3/maintenance/status`, {
        method: 'POST',
        body: '{}',
        signal: AbortSignal.timeout(1_000),
      }).catch(() => undefined)
      const status = await answer?.json().catch(() => undefined)
      if (status?.leader && status.leader !== '0' && status.leader === status.header?.member_id) return member
    }
    return undefined
  }
}
