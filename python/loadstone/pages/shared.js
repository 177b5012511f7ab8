// SPDX-License-Identifier: Apache-2.0
// The page of `loadstone profile --with`: a lane for each network, on one axis of time.
"use strict";
const SVG = "http://www.w3.org/2000/svg";
const LANE = 46, LEFT = 10, BAR = 26;
function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
const networks = DATA.networks;
const colour = palette(networks.map((one, k) => String(k)));
const us = (cycles) => number(cycles / DATA.clock_mhz, 2);
let from = 0, to = DATA.cycles;

function about(one, block) {
  const span = block.end_cycle - block.begin_cycle;
  return [one.model, block.steps.join(", "), block.host ? "the host" : DATA.device,
    `cycles ${number(block.begin_cycle)} to ${number(block.end_cycle)}: ${number(span)}, ${us(span)} µs`].join("\n");
}

// --- the head -----------------------------------------------------------------------------------------
document.body.append(make("header", {}, make("h1", {}, document.title), make("button", { id: "whole", onclick: () => { from = 0; to = DATA.cycles; draw(); } }, "all of it"), themeButton()));
const totals = make("div", { class: "totals" });
networks.forEach((one) => totals.append(make("div", { "data-model": one.model }, one.model, make("b", {}, `${us(one.response_cycles)} µs`), `response, ${number(one.response_cycles)} cycles`)));
document.body.append(totals);
document.body.append(make("h2", {}, "When each has the device ", make("small", {}, "by descending priority; wheel: zoom; drag: move")));

// --- lanes --------------------------------------------------------------------------------------------
const canvas = svg("svg", { id: "lanes", width: "100%", height: LANE * networks.length + 30 });
document.body.append(canvas);
const width = () => Math.max(200, canvas.clientWidth || 1000) - 2 * LEFT;
const x = (cycle) => LEFT + width() * (cycle - from) / (to - from);
function draw() {
  canvas.replaceChildren();
  networks.forEach((one, k) => {
    const y = k * LANE, end = one.released_cycle + one.response_cycles;
    const name = svg("text", { x: LEFT, y: y + 13 });
    name.textContent = one.model;
    canvas.append(name, svg("rect", { x: x(one.released_cycle), y: y + 17, width: Math.max(0, x(end) - x(one.released_cycle)), height: BAR, fill: "none", stroke: "currentColor", "stroke-dasharray": "3 3" }));
    one.blocks.forEach((block, n) => {
      if (block.end_cycle < from || block.begin_cycle > to) return;
      const bar = svg("rect", { class: "block", x: x(block.begin_cycle), y: y + 17, width: Math.max(0.5, x(block.end_cycle) - x(block.begin_cycle)), height: BAR, fill: colour(String(k), n % 2) });
      bar.addEventListener("mousemove", (event) => showTip(about(one, block), event));
      bar.addEventListener("mouseleave", () => showTip(""));
      canvas.append(bar);
    });
  });
  for (let mark = 0; mark <= 8; ++mark) {
    const cycle = from + (to - from) * mark / 8;
    const text = svg("text", { x: x(cycle), y: LANE * networks.length + 20, "text-anchor": mark === 0 ? "start" : mark === 8 ? "end" : "middle" });
    text.textContent = `${us(cycle)} µs`;
    canvas.append(text);
  }
}
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const at = from + (to - from) * (event.offsetX - LEFT) / width(), scale = event.deltaY < 0 ? 0.8 : 1.25;
  from = Math.max(0, at - (at - from) * scale);
  to = Math.min(DATA.cycles, Math.max(from + 1, at + (to - at) * scale));
  draw();
}, { passive: false });
let held = null;
canvas.addEventListener("mousedown", (event) => { held = event.offsetX; });
addEventListener("mouseup", () => { held = null; });
canvas.addEventListener("mousemove", (event) => {
  if (held === null) return;
  const moved = Math.max(-from, Math.min(DATA.cycles - to, (held - event.offsetX) * (to - from) / width()));
  held = event.offsetX;
  from += moved;
  to += moved;
  draw();
});
onTheme.push(draw);
addEventListener("resize", draw);
draw();

// --- blocks -------------------------------------------------------------------------------------------
const rows = networks.flatMap((one, k) => one.blocks.map((block) => ({ one, k, block })));
const columns = [
  { title: "network", text: true, value: (r) => r.one.model, cell: (r) => [make("i", { style: { background: colour(String(r.k)) } }), r.one.model] },
  { title: "steps", text: true, value: (r) => r.block.steps.join(", "), cell: (r) => r.block.steps.join(", "), tip: (r) => r.block.steps.join(", ") },
  { title: "where", text: true, value: (r) => (r.block.host ? "host" : DATA.device), cell: (r) => (r.block.host ? "host" : DATA.device) },
  { title: "begin", value: (r) => r.block.begin_cycle, cell: (r) => number(r.block.begin_cycle) },
  { title: "end", value: (r) => r.block.end_cycle, cell: (r) => number(r.block.end_cycle) },
  { title: "cycles", value: (r) => r.block.end_cycle - r.block.begin_cycle, cell: (r) => number(r.block.end_cycle - r.block.begin_cycle) },
];
const { table } = sortable(columns, rows, () => {});
document.body.append(make("h2", {}, "Blocks ", make("small", {}, "inside which nobody interrupts")), make("div", { class: "tables" }, table));
opened();
