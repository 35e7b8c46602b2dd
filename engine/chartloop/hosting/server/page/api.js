// The HTTP API as the pages use it: requests, their problems, and the stream of events.
//
// Belongs here: what is sent and what comes back. Never: an element of a page.

import { tellTime } from "./clock.js";
import { forTab } from "./keep.js";
import { readable, readably } from "./parts.js";
import { ownTurn } from "./turn.js";

const TOKEN = "chartloop-token";
const SILENCE = 40_000; // ms: the server says something at least every 15 s
const PATIENCE = 30_000; // ms for which an order may stay without an answer
const AWAY = new Set([0, 502, 504]); // no server, or none behind the proxy
const LATER = new Set([...AWAY, 429, 503]); // it did not take the order, and may take it later
const ASKED = 3_000; // ms between two questions for news of a tab without a stream
const ASKED_UNSEEN = 15_000; // ms: of one that is hidden
const RETRY = [500, 1_000, 2_000, 4_000, 8_000]; // ms before each new attempt

/** An answer that is a problem document (RFC 9457), or no answer at all: then `status` is 0. */
export class Problem extends Error {
  constructor(status, body = {}) {
    super(body.detail || body.title || `The server answered ${status}`);
    this.status = status;
    this.body = body;
    this.hint = body.hint || "";
  }

  /** That an order of this name was not taken, and why. */
  unsent(name) {
    return `${name} was NOT sent: ${AWAY.has(this.status) ? "the server does not answer" : this.message}.`.replace("..", ".");
  }
}

/** Kept until the tab is closed, and sent to this server only. */
export const token = {
  get: () => forTab.get(TOKEN),
  set: (secret) => forTab.set(TOKEN, secret),
};

let held = ""; // the token of the link that this page was opened with
/** From now on this page asks as who holds a link, whatever token the tab has. */
export const holdLink = (secret) => { held = secret; };

function headers(more = {}) {
  const secret = token.get();
  if (held) return { Accept: "application/json", Authorization: `Link ${held}`, ...more };
  return { Accept: "application/json", ...(secret ? { Authorization: `Bearer ${secret}` } : {}), ...more };
}

async function send(path, options) {
  const asked = token.get();
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The server does not answer", hint: "What is shown may be old until it does." });
  }
  tellTime(answer);
  if (answer.ok) return answer;
  let body = {};
  try {
    body = await answer.json();
  } catch {
    // an answer of something in between, a proxy say
  }
  throw Object.assign(new Problem(answer.status, body), { stale: asked !== token.get() });
}

export async function get(path, signal) {
  return JSON.parse(await (await send(path, { headers: headers(), signal })).text(), readably);
}

export async function getText(path, signal) {
  return readable(await (await send(path, { headers: headers({ Accept: "*/*" }), signal })).text());
}

const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");

/** Each order has a key of its own: sent twice it has one effect. One that the server did not take has
 *  `again` on its problem, which sends it once more under the same key. */
export async function post(path, body = {}, key = newKey()) {
  const more = { "Content-Type": "application/json", "Idempotency-Key": key };
  try {
    const sent = { method: "POST", headers: headers(more), body: JSON.stringify(body), signal: AbortSignal.timeout(PATIENCE) };
    return JSON.parse(await (await send(path, sent)).text(), readably);
  } catch (error) {
    const known = error instanceof Problem ? error : new Problem(0, {}); // it broke off in its answer
    if (AWAY.has(known.status)) known.hint = "Send it again once it does: it has one effect, however often it is sent.";
    if (LATER.has(known.status)) known.again = () => post(path, body, key);
    throw known;
  }
}

/** Link of a run, in the API and as a page. Ids of children hold slashes. */
export const runPath = (id) => `/runs/${id.split("/").map(encodeURIComponent).join("/")}`;
export const machinePath = (name) => `/machines/${encodeURIComponent(name)}`;

// What is told while a run goes on and is never stored: nothing that a page loads has changed.
const LIVE = new Set(["started", "text", "reasoning", "tool_call"]);
export const isLive = (name) => LIVE.has(name);

export function query(values) {
  const kept = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false);
  const text = new URLSearchParams(kept).toString();
  return text ? `?${text}` : "";
}

/** News for as long as it is wanted: a stream of events, or questions while other tabs have the streams. What is
 *  shown is asked for anew at each connection. */
export class Feed {
  /** `hear(name, data)` for each event; `state("live" | "asking" | "away", why)`; `again()` where events may be missing. */
  constructor(path, { hear, state, again }) {
    Object.assign(this, { path, hear, state, again, failed: 0, closed: false, turn: ownTurn() });
    this.turn.changed = () => this.turned();
    this.run();
  }

  close() {
    this.closed = true;
    this.turned();
  }

  turned() {
    this.stop?.abort();
    this.wake?.();
  }

  async run() {
    while (!this.closed) {
      try {
        await this.ask();
        await this.once();
      } catch (error) {
        if (this.closed) return;
        if (!this.turn.mine && error.name === "AbortError") continue;
        this.state("away", error);
        if (error.status === 401) return;
      }
      await new Promise((done) => setTimeout(done, RETRY[Math.min(this.failed, RETRY.length - 1)]));
      this.failed += 1;
    }
  }

  /** Asks for news until it is this tab's turn to have a stream. */
  async ask() {
    while (!this.closed && !this.turn.mine) {
      await get("/me");
      this.failed = 0;
      this.state("asking");
      this.again();
      await new Promise((done) => {
        this.wake = done;
        setTimeout(done, document.hidden ? ASKED_UNSEEN : ASKED);
      });
    }
  }

  async once() {
    if (this.closed) return;
    const stop = (this.stop = new AbortController());
    let timer = 0;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => stop.abort(), SILENCE);
    };
    alive();
    try {
      const options = { headers: headers({ Accept: "text/event-stream" }), signal: stop.signal };
      const answer = await send(this.path, options);
      this.failed = 0;
      this.state("live");
      this.again(); // what is on the page may be older than the place where the stream begins
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        alive();
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        parts.forEach((part) => this.read(part));
      }
    } finally {
      clearTimeout(timer);
    }
    throw new Problem(0, { detail: "The server does not answer" });
  }

  read(part) {
    const fields = { event: "", data: "" };
    for (const line of part.split("\n")) {
      const [name, ...value] = line.split(":");
      if (name) fields[name] = value.join(":").trimStart();
    }
    if (fields.event && !this.closed) this.hear(fields.event, JSON.parse(fields.data, readably));
  }
}
