// SPDX-License-Identifier: Apache-2.0
// The page of `loadstone sweep --html`: a plot of two measures with the Pareto front, parallel coordinates of what varied, a table of
// devices, and of the chosen one its layers and its file. #device=NAME chooses one when the page opens; #x= and #y= choose measures.
"use strict";
const devices = DATA.devices.map((row, index) => ({ ...row, index }));
const able = devices.filter((row) => row.feasible);
const MEASURES = {
  us: { title: "time", unit: "µs", digits: 1 },
  energy_uj: { title: "energy", unit: "µJ", digits: 1 },
  area_mm2: { title: "area", unit: "mm²", digits: 2 },
};
const said = (value) => (typeof value === "number" ? number(value) : typeof value === "string" ? value : JSON.stringify(value));
let chosen = -1, hovered = -1, lines = [];

function about(row) {
  const settings = DATA.axes.map((axis) => `${axis.name} ${said(row.settings[axis.name])}`);
  if (!row.feasible) return [row.name, ...settings, row.why].join("\n");
  const figures = Object.entries(MEASURES).map(([key, m]) => `${m.title} ${number(row[key], m.digits)} ${m.unit}`);
  return [row.name, ...figures, ...settings, row.front ? "on the Pareto front" : ""].filter(Boolean).join("\n");
}

// --- head -------------------------------------------------------------------------------------------
const search = make("input", { id: "search", placeholder: "find a device or a value", oninput: () => filter() });
document.body.append(make("header", {}, make("h1", {}, document.title), search, themeButton()));
const fact = (title, value) => make("div", {}, make("b", {}, value), title);
document.body.append(make("div", { class: "totals" },
  fact("devices", number(devices.length)), fact("run all networks", number(able.length)),
  fact("on the Pareto front", number(devices.filter((row) => row.front).length)), fact("networks", DATA.networks.join(", "))));

// --- two measures ---------------------------------------------------------------------------------------
const axisX = make("select", { id: "x" }), axisY = make("select", { id: "y" });
for (const [key, m] of Object.entries(MEASURES)) for (const box of [axisX, axisY]) box.append(make("option", { value: key }, `${m.title}, ${m.unit}`));
axisX.value = wanted.get("x") in MEASURES ? wanted.get("x") : "us";
axisY.value = wanted.get("y") in MEASURES ? wanted.get("y") : "energy_uj";
document.body.append(make("h2", {}, "Pareto front ", make("small", {}, "all networks, one after the other; filled: no other device beats it in time, energy and area. ")),
  make("p", { class: "note" }, "across ", axisX, " up ", axisY));
const holder = make("div", { class: "plot", id: "front" });
document.body.append(holder);
let plot = null;
function drawPoints(u) {
  const { ctx } = u, ratio = devicePixelRatio;
  ctx.save();
  for (const row of [...able].sort((a, b) => a.front - b.front)) {
    const x = u.valToPos(row[axisX.value], "x", true), y = u.valToPos(row[axisY.value], "y", true);
    ctx.beginPath();
    ctx.arc(x, y, (row.index === chosen || row.index === hovered ? 8 : row.front ? 5.5 : 3.5) * ratio, 0, 7);
    ctx.globalAlpha = row.front || row.index === chosen ? 1 : 0.55;
    ctx.lineWidth = 1.5 * ratio;
    ctx.strokeStyle = row.index === chosen ? style("--mark") : "hsl(212 62% 52%)";
    ctx.fillStyle = row.index === chosen ? style("--mark") : "hsl(212 62% 52%)";
    if (row.front || row.index === chosen) ctx.fill();
    ctx.stroke();
  }
  ctx.restore();
  document.body.dataset.drawnFront = able.length;
}
function nearest(u, event) {
  const box = u.over.getBoundingClientRect();
  let best = -1, least = 14 * 14;
  for (const row of able) {
    const dx = u.valToPos(row[axisX.value], "x") - (event.clientX - box.left), dy = u.valToPos(row[axisY.value], "y") - (event.clientY - box.top);
    if (dx * dx + dy * dy < least) { least = dx * dx + dy * dy; best = row.index; }
  }
  return best;
}
function buildPlot() {
  holder.replaceChildren();
  if (!able.length) { holder.append(make("p", { class: "note" }, "No device runs all networks: the table says why.")); return; }
  const sorted = [...able].sort((a, b) => a[axisX.value] - b[axisX.value]);
  const range = (self, low, high) => { const pad = (high - low) * 0.06 || high * 0.1 || 1; return [low - pad, high + pad]; };
  const axis = (key) => ({ stroke: () => style("--dim"), grid: { stroke: () => style("--line"), width: 1 }, ticks: { show: false }, size: 48, label: `${MEASURES[key].title}, ${MEASURES[key].unit}`, values: (self, ticks) => ticks.map((t) => number(t, Math.abs(t) < 10 ? 2 : 0)) });
  plot = new uPlot({
    width: Math.max(320, holder.clientWidth), height: 380, legend: { show: false },
    cursor: { points: { show: false }, drag: { x: false, y: false, setScale: false } },
    scales: { x: { time: false, range }, y: { range } },
    axes: [axis(axisX.value), axis(axisY.value)],
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: { draw: [drawPoints] },
  }, [sorted.map((row) => row[axisX.value]), sorted.map((row) => row[axisY.value])], holder);
  plot.over.style.cursor = "pointer";
  plot.over.addEventListener("mousemove", (event) => {
    const index = nearest(plot, event);
    if (index !== hovered) { hovered = index; plot.redraw(false); }
    showTip(index < 0 ? "" : about(devices[index]), event);
  });
  plot.over.addEventListener("mouseleave", () => { hovered = -1; showTip(""); plot.redraw(false); });
  plot.over.addEventListener("click", (event) => choose(nearest(plot, event)));
}
for (const box of [axisX, axisY]) box.addEventListener("change", buildPlot);

// --- parallel coordinates ---------------------------------------------------------------------------------
const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
const paths = new Map();
const WIDTH = 1300, HEIGHT = 300, TOP = 34, BOTTOM = 26;
function scaleOf(values) {
  const low = Math.min(...values), high = Math.max(...values);
  return (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (high > low ? (value - low) / (high - low) : 0.5);
}
function buildParallel() {
  const columns = [
    ...DATA.axes.map((axis) => {
      const place = new Map(axis.values.map((value, k) => [JSON.stringify(value), k]));
      const scale = scaleOf(axis.values.map((value, k) => k));
      return { title: axis.name, y: (row) => scale(place.get(JSON.stringify(row.settings[axis.name]))), ticks: axis.values.map((value, k) => [scale(k), said(value).slice(0, 24)]) };
    }),
    ...Object.entries(MEASURES).map(([key, m]) => {
      const values = able.map((row) => row[key]), scale = scaleOf(values);
      return { title: `${m.title}, ${m.unit}`, y: (row) => scale(row[key]), ticks: values.length ? [Math.min(...values), Math.max(...values)].map((v) => [scale(v), number(v, m.digits)]) : [] };
    }),
  ];
  const x = (k) => 40 + ((WIDTH - 140) * k) / Math.max(1, columns.length - 1);
  const root = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, id: "parallel" });
  for (const row of [...able].sort((a, b) => a.front - b.front)) {
    const path = svg("path", { d: columns.map((column, k) => `${k ? "L" : "M"}${x(k).toFixed(1)} ${column.y(row).toFixed(1)}`).join(""), fill: "none", "data-device": row.name });
    path.addEventListener("mousemove", (event) => showTip(about(row), event));
    path.addEventListener("mouseleave", () => showTip(""));
    path.addEventListener("click", () => choose(row.index));
    paths.set(row.index, path);
    root.append(path);
  }
  columns.forEach((column, k) => {
    root.append(svg("line", { x1: x(k), x2: x(k), y1: TOP, y2: HEIGHT - BOTTOM, stroke: "currentColor" }), svg("text", { x: x(k), y: 14, "text-anchor": k ? "middle" : "start" }, column.title));
    for (const [y, text] of column.ticks) root.append(svg("text", { x: x(k) + 5, y: y + 4, class: "small" }, text));
  });
  document.body.append(make("h2", {}, "Parallel coordinates ", make("small", {}, "a line for each device; those of the front stand out")), root);
  document.body.dataset.drawnParallel = paths.size;
}
function paintPaths() {
  for (const [index, path] of paths) {
    const row = devices[index], mine = index === chosen;
    path.setAttribute("stroke", mine ? style("--mark") : row.front ? "hsl(212 62% 52%)" : style("--dim"));
    path.setAttribute("stroke-width", mine ? 3 : row.front ? 1.6 : 0.8);
    path.setAttribute("stroke-opacity", mine ? 1 : row.front ? 0.9 : 0.25);
  }
}

// --- the chosen device --------------------------------------------------------------------------------------
const detail = make("section", { id: "detail" });
function choose(index) {
  if (index < 0) return;
  chosen = index;
  lines.forEach((line, k) => line.classList.toggle("chosen", k === index));
  paintPaths();
  if (plot) plot.redraw(false);
  show(devices[index]);
  document.body.dataset.chosen = devices[index].name;
}
function show(row) {
  const text = JSON.stringify(row.device, null, 2) + "\n";
  const link = make("a", { href: "data:application/json;charset=utf-8," + encodeURIComponent(text), download: `${row.name}.json`, id: "download" }, `${row.name}.json`);
  detail.replaceChildren(make("h2", {}, row.name, " ", make("small", {}, row.feasible ? "" : row.why)));
  DATA.networks.forEach((network, k) => {
    if (!row.rows[k]) return;
    const f = Object.fromEntries(DATA.row_fields.map((name, n) => [name, row.rows[k][n]]));
    const right = f.accuracy === null ? "" : `, ${percent(f.accuracy)} right`;
    detail.append(make("p", { class: "note" }, `${network}: ${number(f.cycles)} cycles, ${number(f.us, 1)} µs, ${number(f.energy_uj, 1)} µJ, multipliers ${percent(f.utilisation)} used, ${number(f.dram_read_bytes + f.dram_write_bytes)} bytes of DRAM${right}`));
    if (row.profiles[k]) detail.lastChild.append("; ", make("a", { href: row.profiles[k], class: "profile" }, "its profile"));
    const layers = row.layers[k].map((layer) => Object.fromEntries(DATA.layer_fields.map((name, n) => [name, layer[n]])));
    const total = layers.reduce((sum, layer) => sum + layer.cycles, 0) || 1;
    const columns = [
      { title: "layer", text: true, value: (l) => l.name, tip: (l) => l.name, cell: (l) => l.name },
      ...["cycles", "best_cycles", "macs", "bytes"].map((name) => ({ title: name.replace("_", " "), value: (l) => l[name], cell: (l) => number(l[name]) })),
      { title: "share", value: (l) => l.cycles, cell: (l) => percent(l.cycles / total) },
      { title: "bound by", text: true, value: (l) => l.bound, cell: (l) => l.bound },
    ];
    detail.append(make("div", { class: "tables layers" }, sortable(columns, layers, () => {}).table));
  });
  detail.append(make("p", { class: "note" }, "Its file, for ", make("code", {}, `loadstone compile MODEL --target ${row.name}.json`), " and ", make("code", {}, `loadstone profile MODEL --target ${row.name}.json --html page.html`), ": ", link),
    make("pre", { id: "device-json", style: { overflowX: "auto" } }, text));
}

// --- the table ------------------------------------------------------------------------------------------------
const columns = [
  { title: "device", text: true, value: (row) => row.name, tip: about, cell: (row) => (row.front ? "● " : "") + row.name },
  ...DATA.axes.map((axis) => ({ title: axis.name, value: (row) => { const v = row.settings[axis.name]; return typeof v === "number" ? v : said(v); }, tip: (row) => said(row.settings[axis.name]), cell: (row) => said(row.settings[axis.name]).slice(0, 24) })),
  ...Object.entries(MEASURES).map(([key, m]) => ({ title: `${m.title} ${m.unit}`, value: (row) => row[key] ?? Infinity, cell: (row) => number(row[key], m.digits) })),
  { title: "why not", text: true, value: (row) => row.why, tip: (row) => row.why, cell: (row) => row.why },
];
function filter() {
  const text = search.value.toLowerCase();
  devices.forEach((row, k) => { lines[k].hidden = !about(row).toLowerCase().includes(text); });
}
buildPlot();
if (able.length) buildParallel();
const sorted = sortable(columns, devices, (row, line) => line.addEventListener("click", () => choose(row.index)));
lines = sorted.elements;
document.body.append(make("h2", {}, "Devices ", make("small", {}, "● on the front; click a title to sort, a line to see layers and file")), make("div", { class: "tables" }, sorted.table), detail);
document.body.append(make("h2", {}, "What energy and area rest on ", make("small", {}, "stated assumptions of 45 nm, no measurements")),
  ...DATA.assumptions.map((entry) => make("p", { class: "note" }, `${entry.name} ${entry.value}: ${entry.source}`)),
  make("p", { class: "note" }, "[H] M. Horowitz, ISSCC 2014; [D] W. Dally, NIPS 2015; [I] K. Mistry et al., IEDM 2007"));
paintPaths();
addEventListener("resize", () => plot && plot.setSize({ width: Math.max(320, holder.clientWidth), height: plot.height }));
onTheme.push(paintPaths, () => plot && plot.redraw(false));
const first = devices.findIndex((row) => row.name === wanted.get("device"));
choose(first >= 0 ? first : devices.findIndex((row) => row.front));
opened();
