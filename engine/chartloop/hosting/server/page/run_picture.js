// A picture of the server on a page: the only place where text becomes markup.
//
// Belongs here: what makes that safe under the page's policy. Never: a request.

import { Sheet, isDark, pictureOf } from "./parts.js";

const policy = globalThis.trustedTypes?.createPolicy("picture", { createHTML: (svg) => svg });

// The texts of a picture are escaped: this is only ever its own element.
const STYLE = /<style[^>]*>([^<]*)<\/style>/g;
const unescape = (rules) => rules.replaceAll("&gt;", ">").replaceAll("&lt;", "<").replaceAll("&quot;", '"').replaceAll("&amp;", "&");

/** A picture whose rules stand in a sheet of their own: the policy allows no style in markup. */
export class RunPicture extends Sheet {
  constructor(chosen = () => {}) {
    super(chosen);
    this.rules = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.rules];
    this.layout = "";
  }

  close() {
    super.close();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== this.rules);
  }

  read(svg) {
    const rules = [];
    const bare = svg.replace(STYLE, (_, found) => (rules.push(unescape(found)), ""));
    this.own = rules.join("\n");
    const found = pictureOf(policy ? policy.createHTML(bare) : bare);
    if (!found) return null;
    for (const element of [found, ...found.querySelectorAll("[style]")]) element.removeAttribute("style");
    return document.importNode(found, true);
  }

  restyle(rules) {
    this.rules.replaceSync(rules);
  }

  /** What `/painting` answers: a whole picture, or the paint for the one that is here. */
  put({ layout, svg, boxes, outline, style = "", texts = {}, state, about }) {
    this.dark = isDark();
    this.frame.setAttribute("aria-label", about ?? "Flowchart");
    if (outline !== undefined) {
      this.layout = "";
      return this.show({ outline });
    }
    if (svg) {
      this.layout = layout;
      this.show({ picture: svg, boxes });
    }
    this.paint({ style, texts });
    this.follow(state);
  }

  /** A picture that stays as it is, a machine's. */
  still(svg, about) {
    this.frame.setAttribute("aria-label", about);
    this.show({ picture: svg });
    if (this.svg) this.restyle(this.own);
  }
}
