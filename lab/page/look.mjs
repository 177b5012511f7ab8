// What the device did, instruction by instruction: timeline, tokens, scratchpads, DRAM.
//
// In:   a source: { module, runTo(steps), shows(insn), dram() }; of its instructions those are shown that `shows` says, or all.
// Out:  the page's right side; `show` fills it, `go` moves to a step.
// Next: exercises.mjs and network.mjs are sources.
// SPDX-License-Identifier: Apache-2.0
import { byId, element } from "./dom.mjs";
import { ALL_STEPS } from "./module.mjs";
import { numbers, same, scratchpad, usedTiles } from "./tiles.mjs";
import { timeline } from "./timeline.mjs";

const SHOWN = ["uop", "inp", "wgt", "acc"];
const MOST_LISTED = 3000;

let source = null;
let run = null;    // the whole run: order, events, findings, instructions
let shown = 0;     // how many of the shown instructions are done

// Shows a source, behind its first instruction or its last.
export function show(next, atLast) {
  source = next;
  const { module } = source;
  source.runTo(ALL_STEPS);
  const order = module.order(), shows = source.shows ?? (() => true);
  const mine = new Set(order.filter(shows));
  run = {
    order,
    steps: order.flatMap((insn, k) => (mine.has(insn) ? [k + 1] : [])), // instructions executed behind each that is shown
    events: module.events().filter(({ insn }) => mine.has(insn)),
    findings: module.findings(),
    insns: new Map(order.map((index) => [index, module.insn(index)])),
    text: new Map([...mine].sort((a, b) => a - b).map((index) => [index, module.text(index)])),
    final: SHOWN.map((name) => module.scratchpad(module.memories.indexOf(name))),
  };
  byId("step").max = String(run.steps.length);
  byId("look").hidden = false;
  listing();
  go(atLast ? run.steps.length : Math.min(1, run.steps.length));
}

// Moves to the state behind so many of the shown instructions; 0: before the first.
export function go(to) {
  if (source === null) return;
  shown = Math.max(0, Math.min(run.steps.length, to));
  const step = shown > 0 ? run.steps[shown - 1] : (run.steps[0] ?? 1) - 1;
  const { module } = source, width = byId("look").clientWidth, memories = SHOWN.map((name) => module.memories.indexOf(name));
  const state = (steps) => { source.runTo(steps); return memories.map((memory) => module.scratchpad(memory)); };
  const before = state(Math.max(step - 1, 0)), after = step === 0 ? before : state(step);
  const now = shown > 0 ? run.order[step - 1] : null;
  byId("step").value = String(shown);
  byId("at").textContent = now === null ? `${step} of ${run.order.length} instructions` : `${step} of ${run.order.length}: ${now}: ${run.text.get(now)}`;
  byId("timeline").replaceChildren(timeline(run.events, module.stages, width, now, ({ insn }) => behind(insn)));
  byId("scratchpads").replaceChildren(...memories.map((memory, k) => {
    const used = usedTiles([run.final[k], after[k], before[k]], module.tileBytes(memory));
    return used === 0 ? "" : scratchpad(module, memory, after[k], before[k], used, width);
  }));
  tokens(step);
  for (const line of byId("listing").children) line.classList.toggle("now", Number(line.dataset.insn) === now);
  byId("listing").querySelector(".now")?.scrollIntoView({ block: "nearest" });
  dram();
}

const behind = (insn) => go(run.steps.indexOf(run.order.indexOf(insn) + 1) + 1);

// The program as it was assembled; those that the check found are red.
function listing() {
  const { module } = source, found = new Set(run.findings.flatMap(({ insn, other, kind }) => (kind === 3 ? [insn] : [insn, other])));
  byId("listing").replaceChildren(...[...run.text].slice(0, MOST_LISTED).map(([index, text]) =>
    element("li", {
      value: index, "data-insn": index, class: `${module.stages[run.insns.get(index).stage]}${found.has(index) ? " bad" : ""}`,
      onclick: () => behind(index),
    }, text)));
}

// How many tokens wait in each queue behind this step.
function tokens(step) {
  const { queues } = source.module, waiting = queues.map(() => 0);
  for (const index of run.order.slice(0, step)) {
    const { pops, pushes } = run.insns.get(index);
    queues.forEach((_, q) => { waiting[q] += ((pushes >> q) & 1) - ((pops >> q) & 1); });
  }
  byId("tokens").replaceChildren(...queues.map((name, q) =>
    element("span", {}, `${name.replace("->", " \u2192 ")} `, element("b", {}, String(waiting[q])), ...Array.from({ length: Math.min(waiting[q], 8) }, () => element("i")))));
}

// Regions of DRAM: tile by tile, beside what should be in the output.
function dram() {
  const { module } = source, regions = source.dram?.() ?? [];
  byId("dram-title").hidden = regions.length === 0;
  byId("dram").replaceChildren(...regions.map(({ title, memory, bytes, expected }) => {
    const size = module.tileBytes(memory), count = bytes.length / size;
    const tile = (all, k) => all.subarray(k * size, (k + 1) * size);
    const line = (k) => {
      const right = expected === undefined || same(tile(bytes, k), tile(expected, k));
      return element("tr", {}, element("td", {}, String(k)), element("td", right ? {} : { class: "wrong" }, numbers(module, memory, tile(bytes, k)).join(" ")),
        ...(expected === undefined ? [] : [element("td", {}, numbers(module, memory, tile(expected, k)).join(" "))]));
    };
    const head = element("tr", {}, ...["tile", memory === 0 ? "dst src wgt" : "lanes", ...(expected === undefined ? [] : ["expected"])].map((word) => element("th", {}, word)));
    return element("details", expected === undefined ? {} : { open: "" }, element("summary", {}, `${title}: ${count} tile${count === 1 ? "" : "s"}`),
      element("table", {}, head, ...Array.from({ length: Math.min(count, 64) }, (_, k) => line(k))));
  }));
}

// The controls, once.
export function connect() {
  byId("step").addEventListener("input", (event) => go(Number(event.target.value)));
  byId("back").addEventListener("click", () => go(shown - 1));
  byId("forward").addEventListener("click", () => go(shown + 1));
}

export function hide() {
  source = null;
  byId("look").hidden = true;
}
