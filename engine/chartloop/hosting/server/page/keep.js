// What the browser keeps: for its tab, or for longer. Where it may keep nothing, as some are told to, it lasts as long as the page.
//
// Belongs here: keeping, and names that several modules use. Never: what a value means.

export const THEME = "chartloop-theme";

function keeper(store) {
  const here = new Map();
  const kept = (work) => {
    try {
      return work(store());
    } catch {
      return null; // site data is blocked, or full
    }
  };
  return {
    get: (name) => here.get(name) ?? kept((found) => found.getItem(name)) ?? "",
    set(name, value) {
      here.set(name, value);
      kept((found) => found.setItem(name, value));
    },
  };
}

export const forTab = keeper(() => sessionStorage);
export const forBrowser = keeper(() => localStorage);
