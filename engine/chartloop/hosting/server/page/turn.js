// Which tabs of a browser have a stream of events. Over HTTP/1.1 a browser opens six connections to a server,
// and a stream has one for as long as it lasts: the seventh tab would never load. So the tabs that were looked
// at last have one, and the others ask for news.
//
// Belongs here: whose turn it is. Never: what is streamed, or asked.

const MOST = 4; // tabs with a stream: the other connections are for the requests of all tabs
const WORD = 10_000; // ms between two words of a tab; browsers let a hidden tab speak once a minute
const GONE = 150_000; // ms of silence after which a tab is gone
const UNSEEN = 1e12; // ms: hidden tabs come after all that are seen

class Turn {
  constructor() {
    this.changed = () => {};
    this.name = Math.random();
    this.looked = Date.now();
    this.others = new Map();
    this.mine = true;
    this.shared = /^h[23]/.test(performance.getEntriesByType("navigation")[0]?.nextHopProtocol ?? ""); // one connection for all
    this.channel = new BroadcastChannel("chartloop-streams");
    this.channel.addEventListener("message", ({ data }) => this.hear(data));
    for (const name of ["focus", "pageshow"]) addEventListener(name, () => this.look());
    document.addEventListener("visibilitychange", () => this.look());
    addEventListener("pagehide", () => this.channel.postMessage({ name: this.name, rank: null }));
    setInterval(() => this.say(), WORD);
    this.say(true);
  }

  get rank() {
    return document.hidden ? this.looked - UNSEEN : this.looked;
  }

  look() {
    if (!document.hidden) this.looked = Date.now();
    this.say();
    this.decide();
  }

  say(asks = false) {
    this.channel.postMessage({ name: this.name, rank: this.rank, asks });
  }

  hear({ name, rank, asks }) {
    if (rank === null) this.others.delete(name);
    else this.others.set(name, { rank, at: Date.now() });
    if (asks) this.say();
    this.decide();
  }

  decide() {
    const now = Date.now();
    const before = [...this.others.values()].filter(({ rank, at }) => rank > this.rank && now - at < GONE);
    const mine = this.shared || before.length < MOST;
    if (mine === this.mine) return;
    this.mine = mine;
    this.changed();
  }
}

let own = null;

/** The turn of this tab, from the first time on that it wants a stream. */
export const ownTurn = () => (own ??= new Turn());
