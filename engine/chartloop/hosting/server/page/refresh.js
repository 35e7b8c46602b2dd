// Keeps what is shown as new as the journal: one question at a time, and never more often than a pace.
//
// Belongs here: when to ask. Never: what is asked.

export class Refresh {
  /** `ask(signal)` asks and shows; `failed(error)` hears what went wrong. `pace` in ms. */
  constructor(ask, { failed, pace = 300 }) {
    Object.assign(this, { ask, failed, pace, wanted: false, busy: false, closed: false, last: 0 });
    this.stop = new AbortController();
  }

  /** Something may be new. */
  want() {
    this.wanted = true;
    if (!this.busy) this.turn();
  }

  async turn() {
    this.busy = true;
    while (this.wanted && !this.closed) {
      const rest = this.last + this.pace - Date.now();
      if (rest > 0) await new Promise((done) => setTimeout(done, rest));
      if (this.closed) break;
      this.wanted = false;
      try {
        await this.ask(this.stop.signal);
      } catch (error) {
        if (!this.closed) this.failed(error);
      }
      this.last = Date.now();
    }
    this.busy = false;
  }

  close() {
    this.closed = true;
    this.stop.abort();
  }
}
