// SPDX-License-Identifier: Apache-2.0
// The page of `loadstone profile --html`. uPlot gives scales, axes and a canvas; rectangles are drawn here, only those that are
// visible, and of those narrower than a pixel one for each pixel: ten thousand instructions stay smooth.
"use strict";
const rows = DATA.layers.map((row, index) => ({ ...row, index }));
const colour = palette(rows.map((row) => row.kind));
const odd = new Map();
{
  const seen = {};
  for (const row of rows) odd.set(row.index, (seen[row.kind] = 1 - (seen[row.kind] ?? 1)));
}
const paint = (index) => (index < 0 ? "hsl(220 8% 60%)" : colour(rows[index].kind, odd.get(index)));
const knowsMacs = rows.some((row) => row.macs > 0), knowsNoise = rows.some((row) => row.sqnr_db !== null);
const read = (row) => Object.entries(row.bytes).reduce((sum, [memory, size]) => sum + (memory === "out" ? 0 : size), 0);
const moved = (row) => (row.bytes.out === undefined ? null : read(row) + row.bytes.out);
const bytesOf = (row) => Object.entries(row.bytes).filter(([, size]) => size).map(([memory, size]) => `${memory}: ${number(size)}`).join("\n");
const clock = Math.max(1, ...DATA.programs.map((program) => program.clock_mhz));
let chosen = -1;
const plots = [], drawn = {};

// --- what a rectangle says -----------------------------------------------------------------------------
function about(row) {
  const lines = [row.name, `${row.kind} on ${row.where} (${row.how})`];
  if (row.shape.length) lines.push(`output ${row.shape.join(" × ")}`);
  lines.push(row.cycles === null ? `${number(row.us, 2)} µs` : `${number(row.cycles)} cycles, ${number(row.us, 2)} µs, ${percent(row.share)} of all`);
  if (row.sqnr_db !== null) lines.push(`${number(row.sqnr_db, 1)} dB of signal to quantization noise`);
  if (row.bound) lines.push(`bound by ${row.bound}: ${DATA.bounds[row.bound]}`);
  if (row.utilisation !== null) lines.push(`multipliers ${percent(row.utilisation)} busy`);
  if (row.best_cycles !== null) lines.push(`at best ${number(row.best_cycles)} cycles`);
  return lines.join("\n");
}

// --- lanes of the timeline -----------------------------------------------------------------------------
const lanes = [], laneOf = new Map();
function lane(name) {
  if (!laneOf.has(name)) laneOf.set(name, lanes.push({ name, begin: [], end: [], layer: [], tip: [] }) - 1);
  return lanes[laneOf.get(name)];
}
for (const row of rows) {
  if (row.first_cycle !== null) continue;
  const to = lane(row.where);
  to.begin.push(row.begin_us); to.end.push(row.end_us); to.layer.push(row.index); to.tip.push(() => about(row));
}
for (const program of DATA.programs) {
  const e = program.events, { units, clock_mhz } = program;
  units.forEach(lane);
  for (let k = 0; k < e.insn.length; ++k) {
    const to = lanes[laneOf.get(units[e.stage[k]])];
    to.begin.push(program.start_us + e.start[k] / clock_mhz);
    to.end.push(program.start_us + e.end[k] / clock_mhz);
    to.layer.push(e.layer[k]);
    to.tip.push(() => {
      const waits = `waited ${number(e.token[k])} cycles for tokens, ${number(e.fetch[k])} for its fetch`;
      const text = `${units[e.stage[k]]}, instruction ${e.insn[k]}: cycles ${number(e.start[k])} to ${number(e.end[k])}\n${waits}`;
      return e.layer[k] < 0 ? text : `${text}\n\n${about(rows[e.layer[k]])}`;
    });
  }
}
const endUs = Math.max(1e-3, ...lanes.map((entry) => entry.end.reduce((a, b) => Math.max(a, b), 0)));

// First element of sorted numbers that is not below x.
function lower(numbers, x) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < x) low = middle + 1; else high = middle;
  }
  return low;
}

// --- a plot over time with rectangles ------------------------------------------------------------------
// rects: {begin[], end[], low[], high[], layer[], tip[]} sorted by begin; longest: of any, so that a search by begin finds all.
function timePlot(parent, id, height, yRange, yAxis, rects) {
  const longest = rects.begin.reduce((most, begin, k) => Math.max(most, rects.end[k] - begin), 0);
  let hovered = -1;
  const visible = (u) => [lower(rects.begin, u.scales.x.min - longest), lower(rects.begin, u.scales.x.max)];
  function draw(u) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
    const last = new Map(); // pixel column and row -> drawn already
    let count = 0;
    const [from, to] = visible(u);
    for (let k = from; k < to; ++k) {
      const x0 = Math.max(bbox.left - 2, u.valToPos(rects.begin[k], "x", true)), x1 = Math.min(bbox.left + bbox.width + 2, u.valToPos(rects.end[k], "x", true));
      if (x1 < bbox.left) continue;
      const y1 = u.valToPos(rects.low[k], "y", true), y0 = u.valToPos(rects.high[k], "y", true);
      if (x1 - x0 < 1) {
        const key = `${rects.low[k]} ${rects.high[k]}`, column = Math.floor(x0);
        if (last.get(key) === column) continue;
        last.set(key, column);
      }
      const mine = chosen < 0 || rects.layer[k] === chosen;
      ctx.globalAlpha = mine ? 1 : 0.25;
      ctx.fillStyle = paint(rects.layer[k]);
      const gap = x1 - x0 > 4 * ratio ? 0.5 * ratio : 0;
      ctx.fillRect(x0, y0, Math.max(x1 - x0 - gap, 0.6 * ratio), Math.max(y1 - y0 - gap, ratio));
      if (k === hovered || (mine && chosen >= 0 && x1 - x0 > 12)) {
        ctx.globalAlpha = 1; ctx.strokeStyle = k === hovered ? style("--fg") : style("--mark"); ctx.lineWidth = ratio;
        ctx.strokeRect(x0, y0, x1 - x0, y1 - y0);
      }
      if (x1 - x0 > 60 * ratio && y1 - y0 > 12 * ratio && rects.layer[k] >= 0) {
        ctx.globalAlpha = mine ? 1 : 0.4; ctx.fillStyle = "#10151f"; ctx.font = `${11 * ratio}px system-ui`; ctx.textBaseline = "middle"; ctx.textAlign = "left";
        ctx.save(); ctx.beginPath(); ctx.rect(x0, y0, x1 - x0 - 4, y1 - y0); ctx.clip();
        ctx.fillText(rows[rects.layer[k]].short, Math.max(x0, bbox.left) + 4 * ratio, (y0 + y1) / 2); ctx.restore();
      }
      ++count;
    }
    ctx.restore();
    drawn[id] = count;
    document.body.dataset[`drawn${id}`] = count;
  }
  const holder = make("div", { class: "plot", id });
  parent.append(holder);
  const u = new uPlot({
    width: Math.max(320, holder.clientWidth), height, legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false, setScale: false } },
    scales: { x: { time: false, range: (self, low, high) => [low, high] }, y: { range: () => yRange } },
    axes: [
      { stroke: () => style("--dim"), grid: { stroke: () => style("--line"), width: 1 }, ticks: { show: false }, size: 26, values: (self, ticks) => ticks.map((t) => `${number(t, t % 1 ? (t * 10 % 1 ? 2 : 1) : 0)} µs`) },
      { stroke: () => style("--dim"), grid: { stroke: () => style("--line"), width: 1 }, ticks: { show: false }, size: 92, ...yAxis },
    ],
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: { draw: [draw] },
  }, [[0, endUs], [0, 0]], holder);
  const hit = (event) => {
    const box = u.over.getBoundingClientRect();
    const x = u.posToVal(event.clientX - box.left, "x"), y = u.posToVal(event.clientY - box.top, "y");
    const slack = Math.abs(u.posToVal(2, "x") - u.posToVal(0, "x"));
    const [from, to] = visible(u);
    for (let k = to - 1; k >= from; --k) {
      if (rects.begin[k] - slack <= x && x <= rects.end[k] + slack && rects.low[k] <= y && y <= rects.high[k]) return k;
    }
    return -1;
  };
  let drag = null, moved = false;
  u.over.addEventListener("mousedown", (event) => { drag = { x: event.clientX, min: u.scales.x.min, max: u.scales.x.max }; moved = false; });
  addEventListener("mouseup", () => { drag = null; });
  u.over.addEventListener("mousemove", (event) => {
    if (drag) {
      const shift = (drag.x - event.clientX) * (drag.max - drag.min) / u.over.clientWidth;
      if (Math.abs(drag.x - event.clientX) > 3) moved = true;
      if (moved) zoomTo(drag.min + shift, drag.max + shift);
      return;
    }
    const k = hit(event);
    if (k !== hovered) { hovered = k; u.redraw(false); }
    showTip(k < 0 ? "" : rects.tip[k](), event);
  });
  u.over.addEventListener("mouseleave", () => { hovered = -1; showTip(""); u.redraw(false); });
  u.over.addEventListener("click", (event) => { if (!moved) { const k = hit(event); choose(k < 0 ? -1 : rects.layer[k], false); } });
  u.over.addEventListener("dblclick", () => zoomTo(0, endUs));
  u.over.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { min, max } = u.scales.x;
    const at = u.posToVal(event.clientX - u.over.getBoundingClientRect().left, "x");
    const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 240)));
    zoomTo(at - (at - min) * factor, at + (max - at) * factor);
  }, { passive: false });
  plots.push({ u, holder, overTime: true });
  return u;
}

let pending = 0;
function zoomTo(min, max) {
  const span = Math.min(endUs * 1.02, Math.max(max - min, 4 / clock));
  const begin = Math.max(-0.01 * endUs, Math.min(min, endUs * 1.01 - span));
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(() => plots.filter((p) => p.overTime).forEach((p) => p.u.setScale("x", { min: begin, max: begin + span })));
}

// --- choosing a layer -----------------------------------------------------------------------------------
let lines = [];
function choose(index, zoom) {
  chosen = index;
  lines.forEach((line, k) => line.classList.toggle("chosen", k === index));
  if (index >= 0) {
    if (zoom) {
      const margin = 0.08 * (rows[index].end_us - rows[index].begin_us) + 2 / clock;
      zoomTo(rows[index].begin_us - margin, rows[index].end_us + margin);
    } else lines[index].scrollIntoView({ block: "nearest" });
  }
  plots.forEach((p) => p.u.redraw(false));
}

// --- the page -------------------------------------------------------------------------------------------
const search = make("input", { type: "search", id: "search", placeholder: "find a layer", oninput: () => {
  const text = search.value.toLowerCase();
  let first = -1;
  rows.forEach((row, k) => {
    const fits = `${row.name} ${row.kind} ${row.where} ${row.bound}`.toLowerCase().includes(text);
    lines[k].hidden = !fits;
    if (fits && first < 0) first = k;
  });
  if (text && first >= 0) choose(first, true); else choose(-1, false);
} });
document.body.append(make("header", {}, make("h1", {}, document.title), search, make("button", { id: "whole", onclick: () => { choose(-1, false); zoomTo(0, endUs); } }, "whole run"), themeButton()));
const totals = make("div", { class: "totals" });
for (const [where, entry] of Object.entries(DATA.totals)) {
  totals.append(make("div", {}, `${where}: ${entry.layers} layers`, make("b", {}, `${number(entry.us, 1)} µs`), entry.cycles ? `${number(entry.cycles)} cycles, ${entry.how.join(" and ")}` : entry.how.join(" and ")));
}
totals.append(make("div", { id: "sum" }, `a run of ${DATA.samples} sample${DATA.samples > 1 ? "s" : ""}`, make("b", {}, `${number(DATA.us, 1)} µs`), "all devices, one after the other"));
document.body.append(totals);

const legend = make("div", { class: "legend" });
function drawLegend() {
  legend.replaceChildren(...[...new Set(rows.map((row) => row.kind))].map((kind) => make("span", {}, make("i", { style: { background: colour(kind) } }), kind)));
}
drawLegend();
document.body.append(make("h2", {}, "Timeline ", make("small", {}, "wheel: zoom; drag: move; click: the layer; double click: all")), legend);

const top0 = lanes.length;
const joined = { begin: [], end: [], low: [], high: [], layer: [], tip: [] };
{
  const all = [];
  lanes.forEach((entry, k) => entry.begin.forEach((begin, n) => all.push([begin, k, n])));
  all.sort((a, b) => a[0] - b[0]);
  for (const [begin, k, n] of all) {
    const entry = lanes[k];
    joined.begin.push(begin); joined.end.push(entry.end[n]); joined.layer.push(entry.layer[n]); joined.tip.push(entry.tip[n]);
    joined.low.push(top0 - k - 0.92); joined.high.push(top0 - k - 0.08);
  }
}
timePlot(document.body, "Timeline", 44 * lanes.length + 40, [0, lanes.length], {
  splits: () => lanes.map((entry, k) => lanes.length - k - 0.5), values: () => lanes.map((entry) => entry.name), grid: { show: false },
}, joined);

function pieces(get) {
  const all = [];
  for (const program of DATA.programs) {
    const p = get(program);
    if (!p) continue;
    p.layer.forEach((layer, k) => all.push({
      begin: program.start_us + p.begin[k] / program.clock_mhz, end: program.start_us + p.last[k] / program.clock_mhz, low: p.first[k], high: p.end[k], layer, name: layer < 0 ? p.name[k] : rows[layer].name,
    }));
  }
  all.sort((a, b) => a.begin - b.begin);
  const rects = { begin: [], end: [], low: [], high: [], layer: [], tip: [] };
  for (const one of all) {
    for (const key of ["begin", "end", "low", "high", "layer"]) rects[key].push(one[key]);
    rects.tip.push((unit) => `${one.name}\n${number(one.low)} to ${number(one.high)}: ${number(one.high - one.low)}\n${number(one.begin, 2)} to ${number(one.end, 2)} µs`);
  }
  return rects;
}

if (DATA.programs.some((program) => program.arena.layer.length)) {
  document.body.append(make("h2", {}, "Arena ", make("small", {}, `${number(DATA.arena_bytes)} bytes of DRAM: which layer's output lives where, from its first store to its last load; holes are free`)));
  timePlot(document.body, "Arena", 240, [0, DATA.arena_bytes], { incrs: [64, 128, 256, 512, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192].map((t, k) => (k < 4 ? t : t * 1024)), values: (u, ticks) => ticks.map((t) => (t >= 1024 ? `${number(t / 1024)} KiB` : `${t} B`)) }, pieces((program) => program.arena));
}
if (DATA.facts && Object.keys(DATA.facts.scratchpad_tiles).length) {
  document.body.append(make("h2", {}, "Scratchpads ", make("small", {}, "tiles, from the write to the last read")));
  const names = { inp: "inputs", wgt: "weights", acc: "accumulators", uop: "micro-ops" };
  for (const [memory, tiles] of Object.entries(DATA.facts.scratchpad_tiles)) {
    timePlot(document.body, `Pad${memory}`, 130, [0, tiles], { label: names[memory], labelSize: 18, stroke: () => style("--dim"), size: 74 }, pieces((program) => program.scratchpads[memory]));
  }
}
if (DATA.facts && DATA.facts.macs_per_cycle && DATA.facts.bus_bytes) roofline();

// --- roofline -------------------------------------------------------------------------------------------
function roofline() {
  const peak = DATA.facts.macs_per_cycle, bus = DATA.facts.bus_bytes;
  const points = rows.filter((row) => row.where === DATA.facts.name && row.executed_macs > 0 && row.cycles > 0 && (row.macs > 0 || !knowsMacs)).map((row) => {
    const busiest = Math.max(read(row), row.bytes.out, 1); // two channels, side by side
    // What a layer takes of its own may be less than its transfers, which ran while another layer computed.
    return { row, x: row.executed_macs / busiest, y: row.executed_macs / Math.max(row.cycles, row.best_cycles) };
  }).sort((a, b) => a.x - b.x);
  if (!points.length) return;
  document.body.append(make("h2", {}, "Roofline ", make("small", {}, `${number(peak)} MACs a cycle, ${number(bus)} bytes a cycle to read and as many to write; a dot far below both roofs waits for something else: the ALU, tokens, latency`)));
  const low = Math.min(peak / bus, points[0].x) / 2, high = Math.max(peak / bus, points[points.length - 1].x) * 2;
  const least = Math.min(...points.map((p) => p.y), peak / 4) / 2;
  const roof = (x) => Math.min(peak, x * bus);
  const xs = [...new Set([low, peak / bus, high, ...points.map((p) => p.x)])].sort((a, b) => a - b);
  const holder = make("div", { class: "plot", id: "Roofline" });
  document.body.append(holder);
  let hovered = null;
  // The name of each dot beside it; of names that would cover each other those of the layers that take most. How many stand there.
  function nameDots(self) {
    const { ctx, bbox } = self, ratio = devicePixelRatio, taken = [];
    ctx.font = `${11 * ratio}px system-ui`; ctx.textBaseline = "middle"; ctx.textAlign = "left"; ctx.fillStyle = style("--fg");
    for (const point of [...points].sort((a, b) => (b === hovered) - (a === hovered) || b.row.share - a.row.share)) {
      const width = ctx.measureText(point.row.short).width, height = 12 * ratio, gap = (6 + 10 * Math.sqrt(point.row.share)) * ratio;
      const x = self.valToPos(point.x, "x", true), y = self.valToPos(point.y, "y", true);
      const places = [[x + gap, y], [x - gap - width, y], [x - width / 2, y + gap + height / 2], [x - width / 2, y - gap - height / 2]];
      const free = places.find(([left, middle]) => left >= bbox.left && left + width <= bbox.left + bbox.width && middle + height / 2 <= bbox.top + bbox.height
        && middle - height / 2 >= bbox.top && !taken.some((t) => left < t.right && left + width > t.left && middle - height / 2 < t.bottom && middle + height / 2 > t.top));
      if (!free) continue;
      taken.push({ left: free[0], right: free[0] + width, top: free[1] - height / 2, bottom: free[1] + height / 2 });
      ctx.globalAlpha = chosen < 0 || chosen === point.row.index ? 1 : 0.3;
      ctx.fillText(point.row.short, free[0], free[1]);
    }
    return taken.length;
  }
  const u = new uPlot({
    width: Math.max(320, holder.clientWidth), height: 360, legend: { show: false },
    cursor: { points: { show: false }, drag: { x: false, y: false, setScale: false } },
    scales: { x: { time: false, distr: 3, range: () => [low, high] }, y: { distr: 3, range: () => [least, peak * 1.6] } },
    axes: [
      { stroke: () => style("--dim"), grid: { stroke: () => style("--line") }, label: "MACs for each byte, read or written: whichever is more", labelSize: 18, values: (self, ticks) => ticks.map((t) => (t ? +t.toPrecision(2) : "")) },
      { stroke: () => style("--dim"), grid: { stroke: () => style("--line") }, label: "MACs a cycle", labelSize: 18, size: 56, values: (self, ticks) => ticks.map((t) => (t ? +t.toPrecision(2) : "")) },
    ],
    series: [{}, { stroke: () => style("--dim"), width: 2, points: { show: false } }],
    hooks: { draw: [(self) => {
      const { ctx } = self;
      ctx.save();
      for (const point of points) {
        ctx.globalAlpha = chosen < 0 || chosen === point.row.index ? 0.9 : 0.25;
        ctx.fillStyle = paint(point.row.index);
        ctx.beginPath();
        ctx.arc(self.valToPos(point.x, "x", true), self.valToPos(point.y, "y", true), (4 + 10 * Math.sqrt(point.row.share)) * devicePixelRatio, 0, 7);
        ctx.fill();
        ctx.strokeStyle = point === hovered ? style("--fg") : style("--bg"); ctx.lineWidth = devicePixelRatio; ctx.stroke();
      }
      document.body.dataset.namedRoofline = nameDots(self);
      ctx.restore();
      document.body.dataset.drawnRoofline = points.length;
    }] },
  }, [xs, xs.map(roof)], holder);
  const hit = (event) => {
    const box = u.over.getBoundingClientRect();
    let best = null, least2 = 16 * 16;
    for (const point of points) {
      const dx = u.valToPos(point.x, "x") - (event.clientX - box.left), dy = u.valToPos(point.y, "y") - (event.clientY - box.top);
      if (dx * dx + dy * dy < least2) { least2 = dx * dx + dy * dy; best = point; }
    }
    return best;
  };
  u.over.style.cursor = "pointer";
  u.over.addEventListener("mousemove", (event) => {
    const point = hit(event);
    if (point !== hovered) { hovered = point; u.redraw(false); }
    showTip(point ? `${about(point.row)}\n${number(point.x, 1)} MACs a byte, ${number(point.y, 1)} a cycle of ${number(roof(point.x), 1)}` : "", event);
  });
  u.over.addEventListener("mouseleave", () => { hovered = null; showTip(""); u.redraw(false); });
  u.over.addEventListener("click", (event) => { const point = hit(event); choose(point ? point.row.index : -1, false); });
  plots.push({ u, holder, overTime: false });
}

// --- the table --------------------------------------------------------------------------------------------
const field = (title, key, show, help) => ({ title, help, value: (row) => row[key], cell: (row) => show(row[key]) });
const BEST = "cycles that the longest of three would take alone, with nothing to wait for: multipliers and ALU, reads, writes. Far fewer than its cycles: "
  + "it waits, and “bound by” says for what. More: its transfers ran while another layer computed";
const columns = [
  { title: "layer", text: true, value: (row) => row.index, tip: (row) => row.name, cell: (row) => [make("i", { style: { background: paint(row.index) } }), row.short] },
  { title: "where", text: true, value: (row) => row.where, cell: (row) => row.where },
  { title: "kind", text: true, value: (row) => row.kind, cell: (row) => row.kind },
  { title: "shape", text: true, value: (row) => row.shape.join("×"), cell: (row) => row.shape.join("×") },
  knowsMacs
    ? field("MACs", "macs", (v) => (v ? number(v) : ""), "multiply-accumulates of the operator itself")
    : field("executed", "executed_macs", (v) => (v ? number(v) : ""), "multiply-accumulates that the device executes, lanes that fill tiles and moves by ones among them"),
  field("cycles", "cycles", number, "that belong to this layer alone; they sum to the run's"),
  field("from", "first_cycle", number, "its first instruction's start"),
  field("to", "last_cycle", number, "its last instruction's end"),
  field("µs", "us", (v) => number(v, 2)),
  field("share", "share", percent),
  field("used", "utilisation", percent, "of the multipliers"),
  field("best", "best_cycles", number, BEST),
  ...(knowsNoise ? [field("SNR, dB", "sqnr_db", (v) => number(v, 1), "signal to quantization noise of its output, beside the float network")] : []),
  { title: "bound by", text: true, help: "what most of its cycles were spent on", value: (row) => row.bound || row.how, tip: (row) => Object.entries(row.spent_cycles).filter(([, v]) => v).map(([k, v]) => `${k}: ${number(v)}`).join("\n"), cell: (row) => row.bound || row.how },
  { title: "bytes", help: "from and to DRAM, by memory where the pointer rests", value: (row) => moved(row) ?? -1, tip: bytesOf, cell: (row) => number(moved(row)) },
  field("arena", "arena_bytes", (v) => (v ? number(v) : ""), "bytes alive in the arena"),
];
const sorted = sortable(columns, rows, (row, line) => line.addEventListener("click", () => choose(row.index, true)));
lines = sorted.elements;
const notes = [
  `best: ${BEST}`,
  "used: of the multipliers' cycles those in which they multiply, for lanes that only fill tiles as well",
  ...(knowsMacs ? [] : ["executed: what the multipliers do; where a layer only moves values, as a max pool, by ones. Operators' own are known with --network"]),
  ...(knowsNoise ? ["SNR: signal to quantization noise of the layer's output beside the float network, in decibels; below 15 it is marked"] : []),
];
document.body.append(make("h2", {}, "Layers ", make("small", {}, "click a title to sort, a line to see the layer")), make("div", { class: "tables" }, sorted.table), ...notes.map((text) => make("p", { class: "note" }, text)));
if (knowsNoise) {
  const at = columns.findIndex((column) => column.title.startsWith("SNR"));
  rows.forEach((row, k) => { if (row.sqnr_db !== null && row.sqnr_db < 15) lines[k].children[at].classList.add("noisy"); });
}
document.body.dataset.tableWidth = sorted.table.scrollWidth;
document.body.dataset.tableRoom = sorted.table.parentElement.clientWidth;

// --- window, theme, links -----------------------------------------------------------------------------------
addEventListener("resize", () => plots.forEach((p) => p.u.setSize({ width: Math.max(320, p.holder.clientWidth), height: p.u.height })));
onTheme.push(drawLegend, () => plots.forEach((p) => p.u.redraw(false)));
onTheme.push(() => rows.forEach((row) => { lines[row.index].querySelector("i").style.background = paint(row.index); }));
if (wanted.has("layer")) { search.value = wanted.get("layer"); search.dispatchEvent(new Event("input")); }
opened();
