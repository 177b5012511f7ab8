// The exercises: a text, a program to write, a verdict.
//
// In:   the module, exercises.json; the visitor's programs, which the browser keeps.
// Out:  the page's left side; what ran goes to look.mjs.
// Next: bench.mjs judges.
// SPDX-License-Identifier: Apache-2.0
import { Bench, fromBase64, judge } from "./bench.mjs";
import { byId, element, paragraph } from "./dom.mjs";
import { hide, show } from "./look.mjs";

const kept = (name) => `loadstone-lab-${name}`;
// A browser may forbid to keep anything: the lab works all the same.
const recall = (name) => { try { return localStorage.getItem(kept(name)); } catch { return null; } };
const remember = (name, text) => { try { localStorage.setItem(kept(name), text); } catch { /* kept nowhere */ } };

export function verdict(lines) {
  byId("verdict").replaceChildren(...lines.map(({ ok, text, solved }) => element("li", { class: solved ? "ok solved" : ok ? "ok" : "" }, text)));
}

export class Exercises {
  constructor(module, { device, exercises }) {
    this.bench = new Bench(module, device);
    this.device = device;
    this.all = exercises;
  }

  // Shows one; `solved` is called with its name.
  open(exercise, solved) {
    this.bench = new Bench(this.bench.module, this.device); // another device may have been there
    byId("title").textContent = exercise.title;
    byId("text").replaceChildren(...exercise.text.map(paragraph));
    byId("writing").hidden = false;
    byId("opening").hidden = true;
    byId("layers").replaceChildren();
    const program = byId("program");
    program.value = recall(exercise.name) ?? exercise.start;
    program.rows = Math.min(30, program.value.split("\n").length + 2);
    program.oninput = () => remember(exercise.name, program.value);
    byId("again").onclick = () => { program.value = exercise.start; remember(exercise.name, exercise.start); verdict([]); hide(); };
    byId("run").onclick = () => this.#run(exercise, program.value, solved);
    verdict([]);
    hide();
  }

  #run(exercise, text, solved) {
    const found = judge(this.bench, exercise, text);
    verdict([...found.lines, ...(found.solved ? [{ ok: true, solved: true, text: `solved, in ${found.cycles} cycles` }] : [])]);
    document.body.dataset.solved = String(found.solved);
    document.body.dataset.cycles = String(found.cycles);
    if (found.solved) solved(exercise.name);
    this.#look(exercise, text);
  }

  // What ran, on the first of its cases; nothing where the text is no program.
  #look(exercise, text) {
    const { bench } = this;
    let count = 0;
    try { count = bench.open(exercise, 0, text); } catch { /* the verdict says why */ }
    if (count === 0) { hide(); return; }
    const expected = fromBase64(bench.case.output);
    show({
      module: bench.module,
      runTo: (steps) => bench.run(steps),
      dram: () => exercise.regions.map(({ title, memory }, k) => ({
        title: `${title} (dram${k || ""})`, memory, bytes: bench.contents(k), ...(k === exercise.output ? { expected } : {}),
      })).filter(({ bytes }) => bytes.length > 0),
    }, true);
  }
}
