// SPDX-License-Identifier: Apache-2.0
// The page of `loadstone compile --explain-html`: dagre lays the graph out, SVG draws it.
"use strict";
const nodes = DATA.nodes.map((node, index) => ({ ...node, index }));
const colour = palette(nodes.filter((n) => n.where).map((n) => n.where));
const paint = (node) => (node.where ? colour(node.where) : "hsl(220 10% 82%)");
const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function about(node) {
  const lines = [node.name, `${node.kind}${node.where ? ` on ${node.where}` : ""}`, `output ${node.shape.join(" × ")}`];
  if (node.macs) lines.push(`${number(node.macs)} multiplications`);
  if (node.us !== null && node.us !== undefined) lines.push(`${number(node.us, 2)} µs (${node.how})`);
  if (typeof node.sqnr_db === "number") lines.push(`${number(node.sqnr_db, 1)} dB of signal to quantization noise`);
  if (node.how_done) lines.push(`how: ${node.how_done}`);
  if (node.why) lines.push(`why: ${node.why}`);
  if (node.remedy) lines.push(`what would change it: ${node.remedy}`);
  for (const other of node.alternatives || []) {
    lines.push(`${other.place}.${other.pattern}: ${number(other.us, 1)} µs${other.transfer_us ? ` and ${number(other.transfer_us, 1)} µs of transfers` : ""}`);
  }
  return lines.join("\n");
}

// --- the head -----------------------------------------------------------------------------------------
const search = make("input", { type: "search", id: "search", placeholder: "find an operator", oninput: () => {
  const text = search.value.toLowerCase();
  let first = -1;
  shown.forEach((row, k) => {
    const fits = `${row.name} ${row.kind} ${row.where} ${row.why || ""}`.toLowerCase().includes(text);
    lines[k].hidden = !fits;
    if (fits && first < 0 && row.index !== undefined) first = row.index;
  });
  choose(text ? first : -1, true);
} });
document.body.append(make("header", {}, make("h1", {}, document.title), search, make("button", { id: "whole", onclick: () => fit() }, "whole graph"), themeButton()));
const totals = make("div", { class: "totals" });
for (const where of [...new Set(nodes.filter((n) => n.where).map((n) => n.where))]) {
  const mine = nodes.filter((n) => n.where === where);
  totals.append(make("div", { "data-where": where }, where, make("b", {}, `${mine.length} operators`), `${number(mine.reduce((sum, n) => sum + (n.macs || 0), 0))} multiplications`));
}
totals.append(make("div", { id: "sum" }, "the plan", make("b", {}, `${number(DATA.us, 1)} µs`), "all devices, one after the other"));
document.body.append(totals);
const legend = make("div", { class: "legend" });
const drawLegend = () => legend.replaceChildren(...[...new Set(nodes.filter((n) => n.where).map((n) => n.where))].map((where) => make("span", {}, make("i", { style: { background: colour(where) } }), where)));
drawLegend();
document.body.append(make("h2", {}, "Graph ", make("small", {}, "wheel: zoom; drag: move; click: the operator; a mark says that there is a reason")), legend);

// --- the graph ----------------------------------------------------------------------------------------
const layout = new dagre.graphlib.Graph();
layout.setGraph({ rankdir: "TB", nodesep: 24, ranksep: 30, marginx: 12, marginy: 12 });
layout.setDefaultEdgeLabel(() => ({}));
const clipped = (text) => (text.length > 34 ? `…${text.slice(-33)}` : text);
for (const node of nodes) layout.setNode(String(node.index), { width: Math.max(130, 7.2 * clipped(node.short).length + 34, 6.2 * `${node.kind} ${node.shape.join("×")}`.length + 20), height: 42 });
for (const [from, to] of DATA.edges) layout.setEdge(String(from), String(to));
dagre.layout(layout);
const size = layout.graph();
const canvas = svg("svg", {});
const world = svg("g", {});
for (const edge of layout.edges()) {
  const points = layout.edge(edge).points;
  world.append(svg("path", { class: "edge", d: points.map((p, k) => `${k ? "L" : "M"}${p.x.toFixed(1)} ${p.y.toFixed(1)}`).join("") }));
}
const shapes = nodes.map((node) => {
  const box = layout.node(String(node.index));
  const rect = svg("rect", { x: -box.width / 2, y: -box.height / 2, width: box.width, height: box.height, fill: paint(node) });
  const name = svg("text", { x: 0, y: -3, "text-anchor": "middle" }), kind = svg("text", { x: 0, y: 13, "text-anchor": "middle", class: "small" });
  name.textContent = clipped(node.short);
  kind.textContent = `${node.kind} ${node.shape.join("×")}`;
  const group = svg("g", { class: "node", transform: `translate(${box.x.toFixed(1)} ${box.y.toFixed(1)})` }, rect, name, kind);
  if (node.why) {
    const mark = svg("text", { x: box.width / 2 - 10, y: -8, "text-anchor": "middle" });
    mark.textContent = "?";
    group.append(mark);
  }
  group.addEventListener("mousemove", (event) => showTip(about(node), event));
  group.addEventListener("mouseleave", () => showTip(""));
  group.addEventListener("click", () => { if (!moved) choose(node.index, false); });
  world.append(group);
  return group;
});
canvas.append(world);
const holder = make("div", { class: "graph", id: "graph" });
holder.append(canvas);
document.body.append(holder);
let view = { x: 0, y: 0, scale: 1 }, drag = null, moved = false;
const place = () => world.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
function fit(least = 0) {
  const scale = Math.max(least, Math.min(1.2, holder.clientWidth / size.width, holder.clientHeight / size.height));
  view = { scale, x: (holder.clientWidth - scale * size.width) / 2, y: Math.max(0, (holder.clientHeight - scale * size.height) / 2) };
  place();
}
const begin = () => fit(0.75); // a long network begins at its inputs, in letters that can be read
holder.addEventListener("wheel", (event) => {
  event.preventDefault();
  const box = holder.getBoundingClientRect(), factor = Math.exp(-Math.max(-1, Math.min(1, event.deltaY / 300)));
  const x = event.clientX - box.left, y = event.clientY - box.top;
  view = { scale: view.scale * factor, x: x - (x - view.x) * factor, y: y - (y - view.y) * factor };
  place();
}, { passive: false });
holder.addEventListener("mousedown", (event) => { drag = { x: event.clientX - view.x, y: event.clientY - view.y }; moved = false; });
addEventListener("mouseup", () => { drag = null; });
holder.addEventListener("mousemove", (event) => {
  if (!drag) return;
  const x = event.clientX - drag.x, y = event.clientY - drag.y;
  if (Math.abs(x - view.x) + Math.abs(y - view.y) > 3) moved = true;
  view = { ...view, x, y };
  place();
});

// --- choosing ---------------------------------------------------------------------------------------------
let lines = [];
function choose(index, move) {
  shapes.forEach((shape, k) => shape.classList.toggle("chosen", k === index));
  shown.forEach((row, k) => lines[k].classList.toggle("chosen", index >= 0 && row.index === index));
  if (index < 0) return;
  if (move) {
    const box = layout.node(String(index)), scale = Math.max(view.scale, 0.9);
    view = { scale, x: holder.clientWidth / 2 - scale * box.x, y: holder.clientHeight / 2 - scale * box.y };
    place();
  } else {
    const k = shown.findIndex((row) => row.index === index);
    if (k >= 0) lines[k].scrollIntoView({ block: "nearest" });
  }
}

// --- the table: the plan's times add up to its sum; the others are what an operator alone would take --------
const operators = nodes.filter((node) => node.where);
const shown = [...operators, ...DATA.steps];
const alone = (row, where) => { const found = (row.alternatives || []).filter((a) => a.place === where).map((a) => a.us + a.transfer_us); return found.length ? Math.min(...found) : null; };
const columns = [
  { title: "operator", text: true, value: (row) => row.index ?? 1e9, tip: (row) => row.name, cell: (row) => [make("i", { style: { background: row.where ? colour(row.where) : "gray" } }), row.short] },
  { title: "kind", text: true, value: (row) => row.kind, cell: (row) => row.kind },
  { title: "where", text: true, value: (row) => row.where, cell: (row) => row.where },
  { title: "MACs", value: (row) => row.macs ?? -1, cell: (row) => (row.macs ? number(row.macs) : "") },
  { title: "µs in the plan", help: "these add up to the plan's sum", value: (row) => row.us ?? -1, cell: (row) => (row.us === null || row.us === undefined ? "" : number(row.us, 2)) },
  { title: "cycles", help: "that it takes in all", value: (row) => row.cycles ?? -1, cell: (row) => number(row.cycles) },
  ...(nodes.some((node) => typeof node.sqnr_db === "number") ? [{ title: "SNR, dB", help: "signal to quantization noise of its output", value: (row) => row.sqnr_db ?? -1, cell: (row) => number(row.sqnr_db, 1) }] : []),
  ...DATA.places.map((where) => ({ title: `alone on ${where}, µs`, help: "with its transfers", value: (row) => alone(row, where) ?? -1, cell: (row) => { const us = alone(row, where); return us === null ? "" : number(us, 1); } })),
  { title: "why", text: true, class: "why", value: (row) => row.why || "", cell: (row) => row.why || "" },
  { title: "what would change it", text: true, class: "why", value: (row) => row.remedy || "", cell: (row) => row.remedy || "" },
];
const sorted = sortable(columns, shown, (row, line) => line.addEventListener("click", () => { if (row.index !== undefined) { choose(row.index, true); holder.scrollIntoView({ block: "nearest" }); } }));
lines = sorted.elements;
const sum = shown.reduce((total, row) => total + (row.us || 0), 0);
sorted.table.append(make("tfoot", {}, make("tr", {}, make("td", { class: "text" }, make("b", {}, "together")), make("td"), make("td"), make("td"), make("td", { id: "planSum" }, make("b", {}, number(sum, 2))))));
document.body.append(make("h2", {}, "Operators ", make("small", {}, "click a title to sort")), make("div", { class: "tables" }, sorted.table));
onTheme.push(drawLegend, () => nodes.forEach((node, k) => shapes[k].querySelector("rect").setAttribute("fill", paint(node))));
begin();
addEventListener("resize", begin);
if (wanted.has("layer")) { search.value = wanted.get("layer"); search.dispatchEvent(new Event("input")); }
document.body.dataset.drawnNodes = shapes.length;
document.body.dataset.drawnEdges = layout.edges().length;
opened();
