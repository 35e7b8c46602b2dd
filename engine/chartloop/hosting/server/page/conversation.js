// The conversation of a run: what was asked, said, called and answered, the newest at the foot.
//
// Belongs here: which items are loaded and shown, the text that arrives, the box to write in.
// Never: how an item looks (`said.js`), what a step did in full (`step.js`).

import { get, post, query, runPath } from "./api.js";
import { h, text } from "./parts.js";
import { Refresh } from "./refresh.js";
import { Said } from "./said.js";

const PAGE = 40; // items of one request
const MOST = 160; // items that are shown at once; those that are far leave
const NEAR = 400; // px before an end at which the next page is asked for
const FOOT = 60; // px above the foot at which one still follows
const LIVE = 20_000; // characters of what arrives that are shown
const SPOKEN = 4_000; // ms between two readings of what arrives

export class Conversation {
  /** `choose(seq)` is told the step of an item that was pressed; `sent(made)` that something was written. */
  constructor({ run, app, choose, sent }) {
    Object.assign(this, { run, app, choose, sent, shown: false, apart: false, chosen: null, loading: false, following: true });
    this.items = new Map(); // by run and place, in order
    this.chain = [run]; // this run, then what it continues
    this.first = { run, before: null }; // where older items begin; `before` null: nowhere
    this.calls = new Map();
    this.build();
    this.news = new Refresh((signal) => this.load(signal), { failed: (error) => app.fail(error), pace: 500 });
  }

  close() {
    this.news.close();
    this.lines.close();
    this.sizes.disconnect();
    clearTimeout(this.reading);
  }

  build() {
    this.more = h("button", { type: "button", className: "cl-link", hidden: true, textContent: "Earlier", on: { click: () => this.older() } });
    this.later = h("button", { type: "button", className: "cl-link", hidden: true, textContent: "Later", on: { click: () => this.newer() } });
    this.list = h("ol", { className: "said-list" });
    this.live = h("div", { className: "said-live", hidden: true });
    this.scroll = h(
      "div", { className: "cl-scroll talk-scroll", attrs: { role: "region", "aria-label": "Messages", tabindex: "0" }, on: { scroll: () => this.scrolled() } },
      this.more, this.list, this.later, this.live,
    );
    const raw = h("input", { type: "checkbox", on: { change: () => this.showRaw(raw.checked) } });
    this.follow = h("button", { type: "button", hidden: true, textContent: "Newest", on: { click: () => this.toNewest() } });
    this.heard = h("div", { className: "unseen", attrs: { "aria-live": "polite" } });
    this.foot = h("div", { className: "talk-foot" });
    this.root = h(
      "section", { className: "cl-part talk", hidden: true, attrs: { "aria-label": "Conversation" } },
      h("h3", { attrs: { "aria-level": "2" } }, "Conversation ", this.follow, h("label", { className: "talk-raw" }, raw, " as written")),
      this.scroll, this.heard, this.foot,
    );
    this.sizes = new ResizeObserver(() => this.following && this.toFoot());
    this.sizes.observe(this.scroll);
    this.sizes.observe(this.list);
    const pressed = (seq) => (this.mark(seq), this.choose(seq));
    this.lines = new Said({ run: this.run, app: this.app, choose: pressed, scroll: this.scroll });
  }

  /** Shown or not; what is not shown asks for nothing. */
  show(shown) {
    this.shown = shown;
    this.root.hidden = !shown;
    if (shown) this.want();
  }

  want() {
    if (this.shown) this.news.want();
  }

  // loading --------------------------------------------------------------------------------------------

  get(run, given, signal) {
    return get(`${runPath(run)}/conversation${query({ ...given, limit: PAGE })}`, signal);
  }

  /** The newest items; those that are shown and did not change stay as they are. */
  async load(signal) {
    if (this.apart) return;
    const page = await this.get(this.run, {}, signal);
    const whole = page.before === null; // from the start of the run: it joins on to the runs before
    const known = page.items.some(({ place }) => this.items.has(`${this.run} ${place}`)) || (whole && this.items.size > 0);
    if (this.apart) return;
    if (!known && this.items.size && !this.following) {
      this.apart = true; // more came than a page holds, while older items are read: these stay
      return this.showEnds();
    }
    if (!known) this.reset(page);
    else this.keep(() => {
      if (whole) this.leave(page.items);
      this.put(page.items);
      this.thin("first");
    });
    if (this.following) this.toFoot();
    const first = !this.loaded;
    this.loaded = true;
    if (first) this.scrolled(); // earlier turns come at once where there is room for them
    this.mark();
    if (this.wanted !== undefined) this.reveal(this.wanted);
  }

  reset(page, run = this.run) {
    this.items.clear();
    this.list.replaceChildren();
    this.first = { run, before: page.before, earlier: page.earlier };
    this.put(page.items, run);
    this.showEnds();
  }

  /** Items of the run that are none any more leave: its task has another place once it is read. */
  leave(items) {
    const places = new Set(items.map(({ place }) => `${this.run} ${place}`));
    for (const [key, { node, run }] of this.items) {
      if (run !== this.run || places.has(key)) continue;
      node.remove();
      this.items.delete(key);
    }
  }

  /** Items in place of those of the same place, or behind all others. */
  put(items, run = this.run) {
    for (const item of items) {
      const key = `${run} ${item.place}`;
      const was = this.items.get(key);
      const same = JSON.stringify(item);
      if (was?.same === same) continue;
      const node = this.lines.line(item, run);
      if (was) was.node.replaceWith(node);
      else this.list.append(node);
      this.items.set(key, { node, same, run, item });
    }
  }

  async older() {
    const { run, before, earlier } = this.first;
    const from = before === null ? earlier : run;
    if (from === null || from === undefined) return;
    await this.once(async () => {
      const page = await this.get(from, before === null ? {} : { before });
      this.keep(() => {
        const [known, shown] = [this.items, [...this.list.children]];
        this.items = new Map();
        this.list.replaceChildren();
        this.put(page.items, from);
        if (before === null) this.list.append(h("li", { className: "said-turn" }, "Continued as ", h("a", { href: this.lines.link(run), textContent: `run ${run}` })));
        this.list.append(...shown);
        for (const [key, value] of known) this.items.set(key, value);
        this.first = { run: from, before: page.before, earlier: page.earlier };
        if (!this.chain.includes(from)) this.chain.push(from);
        this.thin("last");
      });
    });
  }

  async newer() {
    const last = [...this.items.values()].at(-1);
    if (!this.apart || !last) return;
    await this.once(async () => {
      let { run } = last;
      let page = await this.get(run, { after: last.item.place });
      if (!page.items.length && run !== this.run) {
        run = this.chain[this.chain.indexOf(run) - 1];
        page = await this.get(run, { after: "start" });
        this.list.append(h("li", { className: "said-turn" }, "Continued as ", h("a", { href: this.lines.link(run), textContent: `run ${run}` })));
      }
      this.keep(() => {
        this.put(page.items, run);
        this.apart = page.after !== null || run !== this.run;
        this.thin("first");
      });
      this.want();
    });
  }

  /** One page at a time. */
  async once(ask) {
    if (this.loading) return;
    this.loading = true;
    try {
      await ask();
      this.mark();
    } catch (error) {
      this.app.fail(error);
    } finally {
      this.loading = false;
      this.showEnds();
    }
  }

  /** Changes the list; what one reads stays where it is. */
  keep(change) {
    const top = this.scroll.getBoundingClientRect().top;
    const anchor = [...this.list.children].find((line) => line.getBoundingClientRect().bottom > top);
    const before = anchor?.getBoundingClientRect().top;
    change();
    this.showEnds();
    const now = anchor?.isConnected ? anchor : null;
    if (now) this.scroll.scrollTop += now.getBoundingClientRect().top - before;
  }

  /** Only so many items are shown: those at the first or at the last end leave, and come again by scrolling. */
  thin(end) {
    const keys = [...this.items.keys()];
    const many = keys.length - MOST;
    if (many <= 0) return;
    for (const key of end === "first" ? keys.slice(0, many) : keys.slice(-many)) {
      this.items.get(key).node.remove();
      this.items.delete(key);
    }
    const lines = [...this.list.children];
    const edge = end === "first" ? lines : lines.reverse();
    for (const line of edge) {
      if (!line.classList.contains("said-turn")) break;
      line.remove();
    }
    if (end === "last") this.apart = true;
    else {
      const { run, item } = this.items.values().next().value;
      this.first = { run, before: item.place, earlier: null };
    }
  }

  showEnds() {
    this.more.hidden = this.first.before === null && !this.first.earlier;
    this.later.hidden = !this.apart;
    this.follow.hidden = !this.apart && this.following;
    this.live.hidden = this.apart || !this.calls.size;
  }

  get atFoot() {
    return !this.apart && this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight < FOOT;
  }

  toFoot() {
    this.following = true;
    this.scroll.scrollTop = this.scroll.scrollHeight;
    this.showEnds();
  }

  toNewest() {
    if (this.apart) {
      this.apart = false;
      this.following = true;
      this.items.clear();
      this.list.replaceChildren();
      this.want();
    } else this.toFoot();
    this.choose(null);
  }

  scrolled() {
    this.following = this.atFoot;
    this.showEnds();
    if (this.loading) return;
    if (!this.more.hidden && this.scroll.scrollTop < NEAR) this.older();
    else if (this.apart && this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight < NEAR) this.newer();
  }

  // the chosen step ------------------------------------------------------------------------------------

  /** The items of the chosen step, or the last before it. */
  mark(seq = this.chosen) {
    this.chosen = seq;
    for (const { node, item, run } of this.items.values()) node.classList.toggle("cl-chosen", seq !== null && run === this.run && item.seq === seq);
  }

  async reveal(seq) {
    this.mark(seq);
    this.wanted = undefined;
    if (!this.shown || !this.loaded) {
      if (seq !== null) this.wanted = seq;
      return;
    }
    if (seq === null) {
      if (this.apart) this.toNewest();
      return this.toFoot();
    }
    const own = [...this.items.values()].filter(({ run }) => run === this.run);
    const [first, last] = [own[0]?.item.seq ?? Infinity, own.at(-1)?.item.seq ?? -1];
    if (seq < first || (seq > last && this.apart)) {
      await this.once(async () => {
        const page = await this.get(this.run, { before: `${seq + 1}.0` });
        if (!page.items.length) return;
        this.apart = true;
        this.following = false;
        this.reset(page);
      });
    }
    const found = [...this.items.values()].findLast(({ item, run }) => run === this.run && item.seq <= seq);
    if (!found) return;
    const [inner, outer] = [found.node.getBoundingClientRect(), this.scroll.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom) this.scroll.scrollTop += inner.top - outer.top - outer.height / 3;
    this.scrolled(); // what comes before and after it, if that is near
  }

  showRaw(raw) {
    this.lines.raw = raw;
    this.keep(() => {
      for (const [key, value] of this.items) {
        const node = this.lines.line(value.item, value.run);
        value.node.replaceWith(node);
        this.items.set(key, { ...value, node });
      }
    });
    this.mark();
  }

  // what arrives ---------------------------------------------------------------------------------------

  /** A piece of a text, of reasoning or of a call that the model is writing. */
  hear(name, { text: piece = "", number = 0, name: tool = "", arguments: json = "" }) {
    if (!this.shown) return;
    const key = name === "tool_call" ? `call ${number}` : name;
    const known = this.calls.get(key) ?? { name, tool: "", text: "" };
    known.tool ||= tool;
    known.text = (known.text + (piece || json)).slice(-LIVE);
    this.calls.set(key, known);
    this.unread = ((this.unread ?? "") + (name === "text" ? piece : "")).slice(-2_000);
    this.drawing ??= requestAnimationFrame(() => this.drawLive());
    this.reading ??= setTimeout(() => this.readOut(), SPOKEN);
  }

  drawLive() {
    this.drawing = undefined;
    if (!this.calls.size) return;
    const piece = ({ name, tool, text: words }) => {
      if (name === "reasoning") return h("details", { open: true }, text("summary", "Reasoning"), text("pre", words.slice(-2_000)));
      return name === "text" ? text("div", words, "said-raw") : text("code", `${tool}(${words}`);
    };
    this.live.replaceChildren(text("strong", "The model writes"), ...[...this.calls.values()].map(piece));
    this.showEnds();
    if (this.following) this.toFoot();
  }

  /** For screen readers: the whole sentences that came, not each piece of them. */
  readOut() {
    this.reading = undefined;
    const end = Math.max(this.unread.lastIndexOf(". "), this.unread.lastIndexOf("\n")) + 1;
    if (!end) return;
    this.heard.textContent = this.unread.slice(0, end);
    this.unread = this.unread.slice(end);
  }

  /** The step was taken: what it gave comes with the items. */
  quiet() {
    this.calls.clear();
    this.unread = "";
    this.live.replaceChildren();
    this.showEnds();
  }

  // writing --------------------------------------------------------------------------------------------

  /** The box at the foot, where the run may be written to: it has ended, or asks for one text. */
  compose(view) {
    const lone = view.answers.filter(({ fields }) => fields.filter(({ name }) => name !== "by").length === 1 && fields.some(({ name, type }) => name !== "by" && /^str\b/.test(type)));
    const asked = view.answers.length === 1 && lone.length === 1 && !view.calls.length ? lone[0] : null;
    const next = view.ended && view.status !== "moved" && !this.run.includes("/"); // a child goes on with its parent only
    const kind = next ? "next" : asked ? `answer ${asked.event} ${view.wait}` : "";
    if (kind === this.kind) return;
    this.kind = kind;
    if (!kind) return this.foot.replaceChildren();
    const box = h("textarea", {
      rows: 2, required: true, placeholder: kind === "next" ? "Write the next message" : "Write your answer",
      attrs: { "aria-label": kind === "next" ? "The next message" : "Your answer", "aria-describedby": "talk-keys" },
      on: { keydown: (event) => this.typed(event) },
    });
    const send = h("button", { type: "submit", className: "cl-main", textContent: "Send" });
    const give = async (event) => {
      event.preventDefault();
      if (!box.value.trim() || send.disabled) return;
      send.disabled = true;
      const written = box.value;
      const field = asked?.fields.find(({ name }) => name !== "by").name;
      const first = () =>
        asked
          ? post(`${runPath(this.run)}/answer`, { event: asked.event, data: { [field]: written }, wait: view.wait })
          : post("/runs", { machine: view.machine, task: written, continues: this.run });
      const deliver = async (order) => {
        try {
          const made = await order();
          box.value = "";
          this.app.hush();
          this.sent(asked ? null : made.run);
        } catch (error) {
          if (error.again) error.message = error.unsent("Your message");
          this.app.fail(error, () => deliver(error.again));
        } finally {
          send.disabled = false;
        }
      };
      await deliver(first);
    };
    const keys = h("p", { id: "talk-keys", className: "cl-muted", textContent: kind === "next" ? "It continues as a new run. Enter sends, Shift+Enter begins a line." : "Enter sends, Shift+Enter begins a line." });
    this.foot.replaceChildren(h("form", { className: "talk-box", on: { submit: give } }, box, send, keys));
  }

  typed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  }
}
