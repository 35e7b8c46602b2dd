// The page: which module shows a link, what is the same on every page, and the stream that all of them hear.
//
// Belongs here: navigation, theme, keys of every page, token, connection. Never: what a page shows.

import { Feed, Problem, get, isLive, token } from "./api.js";
import { openCompare } from "./compare.js";
import { openFleet } from "./fleet.js";
import { openInbox } from "./inbox.js";
import { THEME, forBrowser } from "./keep.js";
import { openMachine, openMachines } from "./machines.js";
import { h, text } from "./parts.js";
import { openRun } from "./run.js";
import { openRuns } from "./runs.js";

const THEMES = { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };
const LINKS = {
  live: ["live", "News comes at once"],
  asking: ["every 3 s", "Other tabs of this browser have news at once; this one asks for it. Look at it again, and it is its turn."],
  away: ["no connection, trying again…", ""],
};
const SETTLE = 400; // ms between two looks at the inbox
const LOOK = 10; // s between two looks at the inbox on a page that does not hear of all runs
const KEYS = [
  ["j  ↓", "the next step of a run"],
  ["k  ↑", "the step before"],
  ["g", "step 0, the start"],
  ["G  Esc", "the newest step, and follow the run"],
  ["s  r  p", "step, run, pause or resume"],
  ["b  f  c", "back, fork here, cancel (press twice)"],
  ["t", "try a run that failed again from there"],
  ["m", "run until, add tasks, set a limit or a variable"],
  ["v", "the picture, or the conversation beside it"],
  ["z  Esc", "the picture in the whole window, and back"],
  ["a", "go to the question"],
  ["j  k  Enter", "in a list and in the inbox: the next, the one before, open it"],
  ["x", "in the list of runs: tick a run"],
  ["a  d", "in the inbox: go to what accepts, to what denies; Enter sends it"],
  ["/  Esc", "in a list: search; in the inbox: fold the open question"],
  ["h", "on a machine's page: the flowchart, or where its runs went"],
  ["1  2  3  4", "runs, inbox, machines, fleet"],
  ["?", "these keys"],
];

// Fields in which one types: they keep their keys. Boxes to tick and buttons do not.
const TYPED = "textarea, select, dialog:not(.cl-whole), [contenteditable], input:not([type=checkbox], [type=radio], [type=button], [type=submit])";
const isTyped = (target) => Boolean(target.closest?.(TYPED));

const at = (id) => document.getElementById(id);

class App {
  constructor() {
    this.main = at("main");
    this.page = null;
    this.isAway = false;
    this.greet();
    this.showTheme(forBrowser.get(THEME));
    at("theme").addEventListener("click", () => this.turnTheme());
    at("keys").addEventListener("click", () => this.showKeys());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.page?.theme?.());
    document.addEventListener("click", (event) => this.click(event));
    document.addEventListener("keydown", (event) => this.key(event));
    history.scrollRestoration = "manual"; // what is scrolled to is not there yet
    addEventListener("popstate", ({ state }) => this.open(state));
    addEventListener("pagehide", () => this.markPlace());
    setInterval(() => this.tick(), 1000);
    this.open(history.state);
  }

  greet() {
    this.who = get("/me").catch(() => ({ name: "" }));
  }

  tick() {
    this.page?.tick?.();
    this.seconds = (this.seconds ?? 0) + 1;
    if (this.page?.events && this.seconds % LOOK === 0 && !document.hidden) this.countWaiting();
  }

  /** A page hears of all runs, unless it says of which: it is not woken by others. */
  listen() {
    const path = this.page.events ?? "/events";
    if (this.feed?.path === path) return;
    this.feed?.close();
    this.feed = new Feed(path, {
      hear: (name, data) => {
        this.page?.hear?.(name, data);
        if (!isLive(name)) this.countWaiting();
      },
      state: (state, why) => this.showLink(state, why),
      again: () => {
        this.page?.again?.();
        this.countWaiting();
      },
    });
  }

  // pages ----------------------------------------------------------------------------------------

  /** `left` is where a page was when it was left, if it is come back to. */
  open(left = null) {
    const { pathname, search } = location;
    this.left = left;
    this.page?.close?.();
    this.hush();
    this.path = pathname;
    this.main.replaceChildren();
    const [root, ...rest] = pathname.slice(1).split("/").map(decodeURIComponent);
    const given = new URLSearchParams(search);
    const page = this.pick(root, rest.join("/"));
    this.page = page(this.main, { given, app: this, left });
    this.listen();
    for (const link of document.querySelectorAll("header nav a")) {
      const here = link.pathname === `/${root || "runs"}`;
      if (here) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  pick(root, name) {
    if (root === "runs" && name) return (main, parts) => openRun(main, { ...parts, id: name });
    if (root === "machines" && name) return (main, parts) => openMachine(main, { ...parts, name });
    return { inbox: openInbox, machines: openMachines, compare: openCompare, fleet: openFleet }[root] ?? openRuns;
  }

  /** What a page shows is there: it is scrolled to where it was left. */
  arrived() {
    if (this.left) scrollTo(0, this.left.scrolled);
    this.left = null;
  }

  markPlace() {
    history.replaceState({ scrolled: scrollY, ...this.page.place?.() }, "");
  }

  /** Another page; the focus goes to it. */
  go(link) {
    this.markPlace();
    history.pushState(null, "", link);
    this.open();
    this.main.focus();
    scrollTo(0, 0);
  }

  /** The same page with another link. */
  relink(link) {
    if (link !== location.pathname + location.search) history.replaceState(null, "", link);
  }

  title(words) {
    document.title = `${words} · chartloop`;
  }

  click(event) {
    const link = event.target.closest?.("a[href]");
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !plain || link.target || link.origin !== location.origin || link.hash || link.pathname.endsWith("/picture")) return;
    event.preventDefault();
    this.go(link.pathname + link.search);
  }

  key(event) {
    if (isTyped(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = { 1: "/runs", 2: "/inbox", 3: "/machines", 4: "/fleet" }[event.key];
    if (page) this.go(page);
    else if (event.key === "?") this.showKeys();
    else if (!this.page?.key?.(event)) return;
    event.preventDefault();
  }

  // what is the same on every page -----------------------------------------------------------------

  /** Says what went wrong, and what to do. `resend` sends an order once more that was not taken. */
  fail(error, resend = null) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Problem)) console.error(error);
    if (error.status === 401) return this.askToken(error);
    if (error.status === 0 && !error.again && this.unsent) return; // that it is away is said already
    this.away = error.status === 0;
    this.unsent = Boolean(error.again);
    const { can, driver, errors } = error.body ?? {};
    const lines = [text("strong", error.message)];
    if (error.hint) lines.push(text("span", error.hint));
    if (driver?.name) lines.push(text("span", `Driven by ${driver.name}`));
    for (const one of errors ?? []) lines.push(text("span", `${one.at}: ${one.message}${one.hint ? ` (${one.hint})` : ""}`));
    if (can?.length) lines.push(text("span", `Now it takes: ${can.join(", ")}`));
    const close = h("button", { type: "button", textContent: "Close", on: { click: () => this.hush() } });
    const again = error.again && resend ? h("button", { type: "button", className: "cl-main", textContent: "Send again", on: { click: () => resend(error) } }) : null;
    at("notice").replaceChildren(...[...lines, again, close].filter(Boolean));
    at("notice").hidden = false;
    if (this.away && !this.unsent && !this.isAway) setTimeout(() => this.look(), 1000);
  }

  /** Closes a notice that the server is away if it answers: a request may fail after the stream is back. */
  async look() {
    try {
      await get("/me");
      if (this.away && !this.unsent) this.hush();
    } catch {
      // the stream says when it is back
    }
  }

  hush() {
    this.away = this.unsent = false;
    at("notice").hidden = true;
  }

  /** For screen readers; each text once. */
  speak(words) {
    if (at("spoken").textContent !== words) at("spoken").textContent = words;
  }

  showLink(state, why) {
    if (why?.status === 401) return this.askToken(why);
    this.isAway = state === "away";
    if (!this.isAway && this.away && !this.unsent) this.hush(); // no notice outlives its cause
    this.page?.link?.();
    at("link").dataset.state = state;
    [at("link").textContent, at("link").title] = LINKS[state];
  }

  countWaiting() {
    if (this.counting) return;
    this.counting = setTimeout(async () => {
      this.counting = 0;
      try {
        const { runs, next } = await get("/runs?waiting=true&limit=100");
        at("waiting").textContent = next ? `${runs.length}+` : runs.length;
        at("waiting").hidden = runs.length === 0;
        at("waiting").setAttribute("aria-label", `${runs.length} wait`);
      } catch {
        // the stream says that the server is away
      }
    }, SETTLE);
  }

  /** `stale`: the answer is to a request that was sent before the token was given. */
  askToken({ stale }) {
    if (stale) return;
    const secret = h("input", { type: "password", autocomplete: "off", attrs: { "aria-label": "Token" } });
    const enter = (event) => {
      event.preventDefault();
      token.set(secret.value.trim());
      at("dialog").close();
      this.feed?.close();
      this.feed = null;
      this.greet();
      this.open();
    };
    const send = h("button", { type: "submit", className: "cl-main", textContent: "Go on" });
    const refused = token.get() ? "It does not accept the one that you gave. " : "";
    const about = text("p", `This server wants a token. ${refused}It is kept until you close the tab.`);
    this.dialog("Token", h("form", { on: { submit: enter } }, about, secret, " ", send));
  }

  showKeys() {
    const rows = KEYS.map(([keys, does]) => h("tr", {}, h("th", { textContent: keys, attrs: { scope: "row" } }), text("td", does)));
    this.dialog("Keys", h("table", {}, h("tbody", {}, ...rows)));
  }

  dialog(name, ...inside) {
    const box = at("dialog");
    if (box.open && box.dataset.name === name) return;
    box.dataset.name = name;
    box.setAttribute("aria-label", name);
    const close = h("button", { type: "button", textContent: "Close", on: { click: () => box.close() } });
    box.replaceChildren(text("h2", name), ...inside.filter(Boolean), close);
    if (!box.open) box.showModal();
  }

  turnTheme() {
    // the first press shows a change: the other one than the system's
    const names = matchMedia("(prefers-color-scheme: dark)").matches ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
    this.showTheme(names[(names.indexOf(this.theme) + 1) % names.length]);
    this.page?.theme?.();
  }

  showTheme(theme) {
    this.theme = theme in THEMES ? theme : "auto";
    document.documentElement.classList.remove("light", "dark");
    if (this.theme !== "auto") document.documentElement.classList.add(this.theme);
    at("theme").textContent = { auto: "◐", light: "☀", dark: "☾" }[this.theme];
    at("theme").title = THEMES[this.theme];
    at("theme").setAttribute("aria-label", THEMES[this.theme]);
    forBrowser.set(THEME, this.theme);
  }
}

new App();
