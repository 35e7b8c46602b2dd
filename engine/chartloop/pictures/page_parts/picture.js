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
    this.zoom = 0; // 0: as wide as there is room
    const zoom = (label, title, by) => {
      const on = { click: () => this.resize(by) };
      return h("button", { type: "button", textContent: label, title, attrs: { "aria-label": title }, on });
    };
    const click = (event) => chosen(this.boxes[event.target.closest?.("g.node")?.id]);
    this.frame = h("div", { className: "cl-picture", attrs: { role: "img", tabindex: "0" }, on: { click } });
    this.zooms = h(
      "div",
      { className: "cl-zooms" },
      zoom("−", "Smaller picture", 0.8),
      zoom("Fit", "Picture as wide as there is room", 0),
      zoom("+", "Larger picture", 1.25),
    );
    this.root = h("div", { className: "cl-frame" }, this.frame, this.zooms);
    this.room = new ResizeObserver(() => this.zoom || this.resize(0));
    this.room.observe(this.frame);
  }

  close() {
    this.room.disconnect();
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

  /** 0 fits the picture to its place, or to half its size where it would be too small to read. */
  resize(by) {
    if (!this.svg) return;
    const { width, height } = sizeOf(this.svg);
    const room = this.frame.clientWidth - 2;
    const fit = room > 0 ? Math.max(Math.min(1, room / width), 0.5) : 1;
    this.zoom = by ? Math.min(3, Math.max(0.2, (this.zoom || fit) * by)) : 0;
    const scale = this.zoom || fit;
    this.svg.setAttribute("width", width * scale);
    this.svg.setAttribute("height", height * scale);
    this.follow(this.state);
  }

  /** Bring the box of a state into view. */
  follow(state) {
    this.state = state;
    const id = Object.keys(this.boxes).find((one) => this.boxes[one] === state);
    const box = id && this.svg?.querySelector(`#${CSS.escape(id)}`);
    if (box && this.frame.clientHeight) reveal(box, this.frame);
  }
}
