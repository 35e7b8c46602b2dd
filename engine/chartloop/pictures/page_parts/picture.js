// The picture of a panel: put into the page once, and painted anew after every step.
//
// Belongs here: what comes as markup, made harmless; its size, and which part of it is seen. Never: what
// it shows.

const ACTIVE = "script, foreignObject, iframe, object, embed, use, animate, set, image";

const PREFERRED = "@media (prefers-color-scheme: dark)";

/** The picture, with nothing in it that could run, load or lead anywhere. */
function pictureOf(svg) {
  const read = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  if (read.nodeName !== "svg") return null;
  read.querySelectorAll(ACTIVE).forEach((found) => found.remove());
  for (const element of [read, ...read.querySelectorAll("*")]) {
    for (const { name, value } of [...element.attributes]) {
      const leads = /(^|:)href$/i.test(name) && !value.startsWith("#");
      if (/^on/i.test(name) || leads) element.removeAttribute(name);
    }
  }
  return read;
}

/** Its size in pixels; in the file it is in points. */
function sizeOf(svg) {
  const [, , width, height] = (svg.getAttribute("viewBox") ?? "0 0 600 600").split(/\s+/).map(Number);
  return { width: (width * 4) / 3, height: (height * 4) / 3 };
}

const READABLE = 0.75; // labels of 11 px
const SMALLEST = 0.3;

/** Scroll a frame, and nothing around it, so far that an element in it is seen. */
function reveal(element, frame) {
  const [inner, outer] = [element.getBoundingClientRect(), frame.getBoundingClientRect()];
  if (inner.top < outer.top || inner.bottom > outer.bottom) {
    frame.scrollTop += inner.top - outer.top - (outer.height - inner.height) / 2;
  }
  if (inner.left < outer.left || inner.right > outer.right) {
    frame.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
  }
}

class Sheet {
  /** `chosen` is told the state whose box somebody has clicked. */
  constructor(chosen) {
    this.boxes = {};
    this.painted = {};
    this.dark = false;
    this.zoom = 0; // 0: as wide as there is room, and readable
    const zoom = (label, title, by) => {
      const on = { click: () => this.resize(by) };
      return h("button", { type: "button", textContent: label, title, attrs: { "aria-label": title }, on });
    };
    const click = (event) => chosen(this.boxes[event.target.closest?.("g.node")?.id]);
    this.frame = h("div", { className: "cl-picture", attrs: { role: "img", tabindex: "0" }, on: { click } });
    this.wide = h("button", { type: "button", on: { click: () => this.spread() } });
    this.zooms = h(
      "div",
      { className: "cl-zooms" },
      zoom("−", "Smaller picture", 0.8),
      h("button", { type: "button", textContent: "Fit", title: "The whole picture", attrs: { "aria-label": "Fit the whole picture" }, on: { click: () => this.fitAll() } }),
      zoom("+", "Larger picture", 1.25),
      this.wide,
    );
    this.root = h("div", { className: "cl-frame" }, this.zooms, this.frame);
    this.showWide();
    this.room = new ResizeObserver(() => this.zoom || this.resize(0));
    this.room.observe(this.frame);
  }

  close() {
    this.whole?.close();
    this.room.disconnect();
  }

  /** The picture in the whole window, or back in its place; Esc leads back too. */
  spread() {
    if (this.whole) return this.whole.close();
    const place = h("div", { className: "cl-frame" });
    const closed = () => {
      if (!this.whole) return;
      place.replaceWith(this.root);
      this.whole.remove();
      this.whole = null;
      this.showWide();
      this.wide.focus({ preventScroll: true });
    };
    this.whole = h("dialog", { className: "cl-whole", attrs: { "aria-label": "Picture" }, on: { close: closed } });
    this.root.replaceWith(place);
    place.after(this.whole);
    this.whole.append(this.root);
    this.whole.showModal();
    this.showWide();
    this.frame.focus();
  }

  showWide() {
    const words = this.whole ? "Picture back in its place (Esc)" : "Picture in the whole window";
    this.wide.textContent = this.whole ? "Back" : "Whole window";
    this.wide.title = words;
    this.wide.setAttribute("aria-label", words);
    this.resize(0);
  }

  /** A picture that was laid out anew; in characters where there is nothing to draw with. */
  show({ picture = "", outline = "", boxes = {} }) {
    this.boxes = boxes;
    this.svg = picture ? this.read(picture) : null;
    this.frame.replaceChildren(this.svg ?? text("pre", outline));
    this.zooms.hidden = !this.svg;
    this.resize(0);
  }

  /** The element of an SVG that came as text. */
  read(svg) {
    const found = pictureOf(svg);
    return found && document.importNode(found, true);
  }

  /** Light or dark, as the page is: it need not be what the system prefers. */
  turn(dark) {
    this.dark = dark;
    this.paint(this.painted);
  }

  paint(painted) {
    this.painted = painted;
    const { style = "", texts = {} } = painted;
    if (!this.svg) return;
    this.restyle(style.replace(PREFERRED, this.dark ? "@media all" : "@media not all"));
    for (const place of this.svg.querySelectorAll('[id$="-said"]')) place.textContent = texts[place.id] ?? "";
  }

  /** The rules of the picture; a page that allows no style in its markup puts them elsewhere. */
  restyle(rules) {
    const sheet = this.svg.querySelector("style");
    if (sheet) sheet.textContent = rules;
  }

  /** 0 fits the picture to its place: readable where that is too small, with the box of its state whole. */
  resize(by) {
    if (!this.svg) return;
    const { width, height } = sizeOf(this.svg);
    const room = this.frame.clientWidth - 2;
    let fit = 1;
    if (room > 0) {
      fit = this.whole ? Math.min(2, room / width, (this.frame.clientHeight - 2) / height) : Math.min(1, room / width);
      fit = Math.max(fit, Math.min(READABLE, this.fitsBox()));
    }
    this.zoom = by ? Math.min(3, Math.max(0.2, (this.zoom || fit) * by)) : 0;
    const scale = this.zoom || fit;
    this.svg.setAttribute("width", width * scale);
    this.svg.setAttribute("height", height * scale);
    this.follow(this.state);
  }

  /** The whole picture, as large as there is room. */
  fitAll() {
    if (!this.svg || this.frame.clientWidth <= 2) return;
    const { width, height } = sizeOf(this.svg);
    this.resize(0);
    const scale = Math.min(this.whole ? 2 : 1, (this.frame.clientWidth - 2) / width, (this.highest() - 2) / height);
    this.zoom = Math.max(0.05, scale);
    this.svg.setAttribute("width", width * this.zoom);
    this.svg.setAttribute("height", height * this.zoom);
  }

  /** The largest scale at which the box of its state is seen whole. */
  fitsBox() {
    const box = this.boxOf(this.state)?.getBBox?.();
    if (!box?.width) return 1;
    const room = [this.frame.clientWidth / box.width, this.highest() / box.height];
    return Math.max(SMALLEST, (Math.min(...room) * 3) / 4 - 0.05);
  }

  /** How high its frame may become. */
  highest() {
    return parseFloat(getComputedStyle(this.frame).maxHeight) || this.frame.clientHeight;
  }

  /** The outline of a state's box: a group is as large as its texts, and an empty text stands at 0, 0. */
  boxOf(state) {
    const id = Object.keys(this.boxes).find((one) => this.boxes[one] === state);
    return id && this.svg?.querySelector(`#${CSS.escape(id)} :is(polygon, path, ellipse)`);
  }

  /** Bring the box of a state into view. */
  follow(state) {
    const other = state !== this.state;
    this.state = state;
    if (other && !this.zoom) return this.resize(0);
    const box = this.boxOf(state);
    if (box && this.frame.clientHeight) reveal(box, this.frame);
  }

  /** A dashed frame round the box of a state, for what else is to be found there. */
  mark(state) {
    this.svg?.querySelector(".cl-marked")?.remove();
    const box = this.boxOf(state);
    if (!box) return;
    const { x, y, width, height } = box.getBBox();
    const frame = document.createElementNS(box.namespaceURI, "rect");
    const sides = { x: x - 7, y: y - 7, width: width + 14, height: height + 14, rx: 6, class: "cl-marked" };
    for (const [name, value] of Object.entries(sides)) frame.setAttribute(name, value);
    box.after(frame);
    this.follow(state);
  }
}
