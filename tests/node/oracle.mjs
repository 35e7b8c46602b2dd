// What Mermaid itself reads: one chart a line on stdin as a JSON string, one answer a line on stdout.
//
//   {"refused": "..."}   or   {"nodes": [{id, text, shape}], "edges": [{source, target, text, ...}]}
//
// A shape is what Mermaid stores, empty where the chart says none. A text is what the page would
// show: codes read, breaks as newlines, tags gone.
import { createInterface } from 'node:readline';
import { JSDOM } from 'jsdom';

const { window } = new JSDOM('<!DOCTYPE html><body></body>', { pretendToBeVisual: true });
Object.assign(globalThis, { window, document: window.document });
for (const name of ['Element', 'SVGElement', 'HTMLElement', 'Node', 'DOMParser']) {
  globalThis[name] = window[name];
}
for (const name of ['log', 'info', 'warn', 'error', 'debug']) {
  console[name] = () => {};
}
const { default: mermaid } = await import('mermaid');
mermaid.initialize({ startOnLoad: false, maxTextSize: 2_000_000, maxEdges: 20_000 });

function shown(written) {
  const text = String(written ?? '')
    .replace(/<\/?br\s*\/?>|\\n/gi, '\n')
    .replaceAll('ﬂ°°', '&#')
    .replaceAll('ﬂ°', '&')
    .replaceAll('¶ß', ';');
  const page = document.createElement('div');
  page.innerHTML = text;
  return page.textContent;
}

// States and arrows as Mermaid draws them, without its notes.
function states({ nodes, edges }) {
  const drawn = nodes.filter(({ shape }) => !/^note/.test(shape));
  const names = new Set(drawn.map(({ id }) => id));
  return {
    nodes: drawn.map(({ id, label, shape, description }) => {
      return { id, text: shown([label, description].flat().filter(Boolean).join('\n')), shape };
    }),
    edges: edges
      .filter(({ start, end }) => names.has(start) && names.has(end))
      .map(({ start, end, label }) => {
        return { source: start, target: end, text: shown(label), head: '', stroke: '' };
      }),
    groups: drawn.filter(({ isGroup }) => isGroup).map(({ id }) => id),
    owners: drawn.filter(({ parentId }) => parentId).map(({ id, parentId }) => [id, parentId]),
  };
}

async function read(text) {
  const { type, db } = await mermaid.mermaidAPI.getDiagramFromText(text);
  if (type.startsWith('stateDiagram')) {
    return states(db.getData());
  }
  if (!type.startsWith('flowchart')) {
    return { refused: `another kind of chart: ${type}` };
  }
  const groups = new Set(db.getSubGraphs().map((group) => group.id));
  return {
    nodes: [...db.getVertices().values()].map(({ id, text, type, icon, img }) => {
      return { id, text: shown(text), shape: type ?? '', picture: icon ? 'icon' : img ? 'img' : '' };
    }),
    edges: db.getEdges().map(({ start, end, text, type, stroke, id }) => {
      return { source: start, target: end, text: shown(text), head: type, stroke, id };
    }),
    groups: [...groups],
    owners: db.getSubGraphs().flatMap((group) => group.nodes.map((node) => [node, group.id])),
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = await read(JSON.parse(line));
  } catch (error) {
    answer = { refused: String(error?.message ?? error).slice(0, 400) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
