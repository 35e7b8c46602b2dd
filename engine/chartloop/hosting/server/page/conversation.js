// The conversation of a run: what was asked, said, called and answered, the newest at the foot.
//
// Belongs here: which items are loaded and shown, the text that arrives, the box to write in.
// Never: how Markdown is read (`markdown.js`), what a step did in full (`step.js`).

import { get, post, query, runPath } from "./api.js";
import { markdown } from "./markdown.js";
import { h, text } from "./parts.js";
import { Refresh } from "./refresh.js";
import { count, moment } from "./words.js";

const PAGE = 40; // items of one request
const MOST = 160; // items that are shown at once; those that are far leave
const NEAR = 400; // px before an end at which the next page is asked for
const FOOT = 60; // px above the foot at which one still follows
const LIVE = 20_000; // characters of what arrives that are shown
const SPOKEN = 4_000; // ms between two readings of what arrives
const IMAGE = /^data:image\/(?:png|jpeg|gif|webp);base64,/;
const PEOPLE = new Set(["task", "answer"]);
const WHO = { task: "Task", message: "To the model", reply: "Model", failure: "Failed", question: "Asks", prompt: "Prompt", memory: "Memory", cut: "Shortened" };

export class Conversation {
  /** `choose(seq)` is told the step of an item that was pressed; `sent(made)` that something was written. */
  constructor({ run, app, choose, sent }) {
    Object.assign(this, { run, app, choose, sent, raw: false, shown: false, apart: false, chosen: null, loading: false, following: true });
    this.items = new Map(); // by run and place, in order
    this.open = new Set(); // folds that are open: they stay so when their item is shown anew
    this.chain = [run]; // this run, then what it continues
    this.first = { run, before: null }; // where older items begin; `before` null: nowhere
    this.calls = new Map();
    this.build();
    this.news = new Refresh((signal) => this.load(signal), { failed: (error) => app.fail(error), pace: 500 });
  }

  close() {
    this.news.close();
    this.watch.disconnect();
    this.sizes.disconnect();
    clearTimeout(this.reading);
  }

  build() {
    this.more = h("button", { type: "button", className: "cl-link", hidden: true, textContent: "Earlier", on: { click: () => this.older() } });
    this.later = h("button", { type: "button", className: "cl-link", hidden: true, textContent: "Later", on: { click: () => this.newer() } });
    this.list = h("ol", { className: "said-list" });
    this.live = h("div", { className: "said-live", hidden: true });
    this.scroll = h(
      "div", { className: "cl-scroll talk-scroll", attrs: { role: "region", "aria-label": "Conversation", tabindex: "0" }, on: { scroll: () => this.scrolled() } },
      this.more, this.list, this.later, this.live,
    );
    const raw = h("input", { type: "checkbox", on: { change: () => this.showRaw(raw.checked) } });
    this.follow = h("button", { type: "button", hidden: true, textContent: "Newest", on: { click: () => this.toNewest() } });
    this.heard = h("div", { className: "unseen", attrs: { "aria-live": "polite" } });
    this.foot = h("div", { className: "talk-foot" });
    this.root = h(
      "section", { className: "cl-part talk", hidden: true, attrs: { "aria-label": "Conversation" } },
      h("h3", {}, "Conversation ", this.follow, h("label", { className: "talk-raw" }, raw, " as written")),
      this.scroll, this.heard, this.foot,
    );
    this.sizes = new ResizeObserver(() => this.following && this.toFoot());
    this.sizes.observe(this.scroll);
    this.sizes.observe(this.list);
    this.watch = new IntersectionObserver((seen) => seen.filter((one) => one.isIntersecting).forEach((one) => this.loadImage(one.target)), { root: this.scroll, rootMargin: "300px" });
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
    const known = page.items.some(({ place }) => this.items.has(`${this.run} ${place}`));
    if (this.apart) return;
    if (!known) this.reset(page);
    else this.keep(() => {
      this.put(page.items);
      this.thin("first");
    });
    if (this.following) this.toFoot();
    this.loaded = true;
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

  /** Items in place of those of the same place, or behind all others. */
  put(items, run = this.run) {
    for (const item of items) {
      const key = `${run} ${item.place}`;
      const was = this.items.get(key);
      const same = JSON.stringify(item);
      if (was?.same === same) continue;
      const node = this.line(item, run);
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
        if (before === null) this.list.append(h("li", { className: "said-turn" }, "Continued as ", h("a", { href: this.link(run), textContent: `run ${run}` })));
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
        this.list.append(h("li", { className: "said-turn" }, "Continued as ", h("a", { href: this.link(run), textContent: `run ${run}` })));
      }
      this.keep(() => {
        this.put(page.items, run);
        this.apart = page.after !== null || run !== this.run;
        this.thin("first");
      });
      this.want();
    });
  }

  link(run) {
    return `${runPath(run)}?view=conversation`;
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
  }

  /** An item was pressed: its step is chosen, unless something in it was meant, or a text marked. */
  pressed(event, seq, run) {
    if (run !== this.run || event.target.closest("a, button, summary, pre, label, img") || String(getSelection())) return;
    this.mark(seq);
    this.choose(seq);
  }

  // items ----------------------------------------------------------------------------------------------

  line(item, run) {
    const { kind, seq, at, state, who, open, call } = item;
    const failed = kind === "failure" || call?.ok === false;
    const step = h("button", {
      type: "button", className: "cl-link said-step", textContent: `#${seq}`, title: moment(at), attrs: { "aria-label": `Step ${seq}: show it` },
      on: { click: () => (run === this.run ? (this.mark(seq), this.choose(seq)) : this.app.go(`${runPath(run)}${query({ step: seq, view: "conversation" })}`)) },
    });
    const name = kind === "answer" ? `${who || "Somebody"} answered ${state}` : kind === "call" ? "" : PEOPLE.has(kind) && who ? who : WHO[kind];
    const beside = kind === "reply" ? [state, who].filter(Boolean).join(", ") : kind === "answer" || kind === "call" ? "" : state;
    const head = name ? h("div", { className: "said-head" }, text("strong", name ?? kind), text("span", beside, "cl-muted"), step) : null;
    const body = { call: () => this.call(item, run, step), child: () => [this.child(item.child, item, run, step)] }[kind]?.() ?? this.words(item, run);
    const made = h("li", { className: `said${failed ? " said-failed" : ""}${open ? " said-open" : ""}`, on: { click: (event) => this.pressed(event, seq, run) } }, head, ...body);
    made.dataset.kind = kind;
    made.dataset.place = item.place;
    return made;
  }

  words(item, run) {
    const { kind, reasoning, parts } = item;
    const about = [];
    if (reasoning) about.push(this.fold(item, run, "reasoning", "Reasoning", this.passage(item, run, "reasoning", reasoning, "pre")));
    const shown = this.passage(item, run, "text", item.text, kind === "reply" ? "markdown" : "p");
    const folded = kind === "prompt" || kind === "memory";
    if (item.text.text) about.push(folded ? this.fold(item, run, "text", item.text.text.slice(0, 80), shown) : shown);
    return [...about, ...parts.map((part) => this.part(part, item, run))];
  }

  call(item, run, step) {
    const { call, open } = item;
    const sign = { true: "✓", false: "✗" }[call.ok] ?? (open ? "…" : "–");
    const first = call.ok === false ? text("span", call.result.text.slice(0, 200), "said-fault") : null;
    const summary = h("summary", {}, text("span", sign, "said-sign"), text("code", call.line), first);
    const result = call.result ? [text("p", "Result", "cl-muted"), this.passage(item, run, "result", call.result, "pre")] : [text("p", open ? "There is no result yet." : "No result was recorded.", "cl-muted")];
    const inside = [text("p", "Arguments", "cl-muted"), this.passage(item, run, "arguments", call.arguments, "pre"), ...result];
    const links = call.children.map((child) => this.childLink(child));
    return [h("div", { className: "said-call" }, this.details(item, run, "call", summary, ...inside), step), ...links, ...call.parts.map((part) => this.part(part, item, run))];
  }

  child(child, item, run, step) {
    const summary = h("summary", {}, text("span", child.reason === "completed" ? "✓" : "✗", "said-sign"), `${child.machine} `, text("span", child.reason || child.status, "cl-muted"));
    return h("div", { className: "said-call" }, this.details(item, run, "child", summary, this.childLink(child), this.passage(item, run, "output", child.output, "markdown")), step);
  }

  childLink({ run }) {
    return h("p", { className: "said-child" }, "Child run ", h("a", { href: this.link(run), textContent: run }));
  }

  fold(item, run, name, about, ...inside) {
    return this.details(item, run, name, text("summary", about), ...inside);
  }

  details(item, run, name, summary, ...inside) {
    const key = `${run} ${item.place} ${name}`;
    const made = h("details", { open: this.open.has(key) }, summary, ...inside);
    made.addEventListener("toggle", () => (made.open ? this.open.add(key) : this.open.delete(key)));
    return made;
  }

  /** A text, and a button that asks for the rest of it. */
  passage(item, run, name, { text: beginning, rest }, look) {
    const box = h("div", { className: "said-text" });
    const put = (words) => {
      const raw = this.raw || look !== "markdown";
      const made = raw ? text(look === "pre" ? "pre" : "div", words, "said-raw") : markdown(words);
      if (made.localName === "pre") made.tabIndex = 0;
      box.replaceChildren(made);
    };
    put(beginning);
    if (rest) {
      const all = h("button", { type: "button", className: "cl-link", textContent: `Show all, ${count(rest)} characters more` });
      all.addEventListener("click", async () => {
        try {
          put((await get(`${runPath(run)}/passage${query({ place: item.place, name })}`)).text);
        } catch (error) {
          this.app.fail(error);
        }
      });
      box.append(all);
    }
    return box;
  }

  part({ kind, about, name }, item, run) {
    const made = h("div", { className: "said-part" }, text("span", about, "cl-muted"));
    if (kind === "image" && name) {
      made.classList.add("said-image");
      Object.assign(made, { link: `${runPath(run)}/passage${query({ place: item.place, name })}`, about });
      this.watch.observe(made);
    }
    return made;
  }

  /** An image of the journal; its data come from this server, and are no address. */
  async loadImage(box) {
    this.watch.unobserve(box);
    try {
      const { text: data } = await get(box.link);
      if (IMAGE.test(data)) box.replaceChildren(h("img", { src: data, alt: box.about }));
    } catch {
      // what it is stands there already
    }
  }

  showRaw(raw) {
    this.raw = raw;
    this.keep(() => {
      for (const [key, value] of this.items) {
        const node = this.line(value.item, value.run);
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
    const kind = view.ended && !view.moved ? "next" : asked ? `answer ${asked.event} ${view.wait}` : "";
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
