// A visitor's program: assembled, validated, run, and judged.
//
// In:   the module (module.mjs), an exercise of exercises.json, text.
// Out:  `Bench`: runs up to a step; `judge`: whether the program solves the exercise, and why not.
// Next: exercises.mjs shows it. It knows no page: tests run it in Node.
// SPDX-License-Identifier: Apache-2.0
import { ALL_STEPS } from "./module.mjs";

const ORDERS = ["in the order of the program", "with loads as early as tokens allow", "with stores as early as tokens allow"];
const KINDS = ["", "race", "race in DRAM", "uninitialised"];

export const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
const equal = (a, b) => a.length === b.length && a.every((byte, k) => byte === b[k]);

export class Bench {
  // device: as in exercises.json.
  constructor(module, device) {
    this.module = module;
    module.device(fromBase64(device.config), device.busBits, device.timing);
  }

  // A program on one of the exercise's cases. The number of instructions; an Error says what is no instruction.
  open(exercise, which, text) {
    this.case = exercise.cases[which];
    this.regions = exercise.regions.map(({ kind }, k) => ({ kind, bytes: fromBase64(this.case.regions[k]) }));
    this.text = text;
    return this.#fill();
  }

  // From the beginning, with memory as it was: `steps` instructions, in one of three orders. The device's status.
  run(steps = ALL_STEPS, order = 0) {
    this.#fill();
    return this.module.run(steps, order);
  }

  // `contents` gives the bytes of a region from here on.
  #fill() {
    this.contents = this.module.regions(this.regions);
    return this.module.assemble(this.text);
  }
}

// A finding in words.
export function said(module, finding) {
  const name = module.memories[finding.memory];
  const tiles = finding.kind === 2 ? `${finding.count} bytes of DRAM` :
    `${name}[${finding.first}]${finding.count > 1 ? ` to ${name}[${finding.first + finding.count - 1}]` : ""}`;
  if (finding.kind === 3) return `${KINDS[3]}: instruction ${finding.insn} reads ${tiles}, which nothing has written`;
  const verb = (bit) => (finding.writes & bit ? "writes" : "reads");
  return `${KINDS[finding.kind]}: instruction ${finding.insn} ${verb(1)} and ${finding.other} ${verb(2)} ${tiles}, and no token orders them`;
}

// Why the last run is none, or null.
const stopped = (module, status) => (status === 0 ? null : module.message());

// { solved, cycles, lines: [{ ok, text, insn }] }: a line for each thing that was asked, up to the first that makes the rest pointless.
export function judge(bench, exercise, text) {
  const { module } = bench;
  const lines = [];
  const line = (ok, what, insn = null) => { lines.push({ ok, text: what, insn }); return ok; };
  const end = (cycles = 0) => ({ solved: lines.every(({ ok }) => ok), cycles, lines });
  try {
    bench.open(exercise, 0, text);
  } catch (error) {
    line(false, error.message);
    return end();
  }
  const refused = module.validate();
  line(refused === null, refused === null ? "the validator accepts the program" : `the validator refuses instruction ${refused.insn}: ${refused.why}`, refused?.insn);
  let cycles = 0;
  for (let which = 0; which < exercise.cases.length; ++which) {
    bench.open(exercise, which, text);
    for (let order = 0; order < ORDERS.length; ++order) {
      const why = stopped(module, bench.run(ALL_STEPS, order));
      if (why !== null) { line(false, why, module.result().errorInsn); return end(); }
      const first = which === 0 && order === 0;
      if (first) {
        cycles = module.result().cycles;
        const findings = module.findings();
        for (const finding of findings) line(false, said(module, finding), finding.insn);
        if (findings.length === 0) line(true, "no race, and nothing is read that was not written");
      }
      const right = equal(bench.contents(exercise.output), fromBase64(bench.case.output));
      if (!right || first) line(right, `the output is ${right ? "right" : "wrong"}${which === 0 ? "" : " for other data"}, ${ORDERS[order]}`);
      if (!right) return end(cycles);
    }
  }
  line(true, "also for other data, and in whatever order tokens leave");
  if (exercise.cycles > 0) line(cycles <= exercise.cycles, `${cycles} cycles; ${exercise.cycles} at most`);
  return end(cycles);
}
