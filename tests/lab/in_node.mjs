// The lab without a page, in Node: requests as JSON on stdin, answers on stdout.
//
// In:   the folder of the lab; a list of requests.
// Out:  an answer for each.
// Next: tests/lab/test_in_node.py.
// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const load = (name) => import(pathToFileURL(join(folder, name)));
const { ALL_STEPS, NONE, openModule } = await load("module.mjs");
const { Bench, fromBase64, judge } = await load("bench.mjs");
const { openArtifact } = await load("artifact.mjs");
const json = (name) => JSON.parse(readFileSync(join(folder, name), "utf8"));
const data = json("exercises.json"), devices = json("devices.json");
const fresh = () => openModule(readFileSync(join(folder, "lab.wasm")));
const base64 = (bytes) => Buffer.from(bytes).toString("base64");

const answers = {
  // Judges a program of an exercise.
  async judge({ exercise, text }) {
    const bench = new Bench(await fresh(), data.device);
    return judge(bench, data.exercises.find(({ name }) => name === exercise), text);
  },
  // Scratchpads behind each step of a program, from none on.
  async states({ exercise, text, memories }) {
    const bench = new Bench(await fresh(), data.device);
    const count = bench.open(data.exercises.find(({ name }) => name === exercise), 0, text);
    return Array.from({ length: count + 1 }, (_, steps) => {
      bench.run(steps);
      return memories.map((memory) => base64(bench.module.scratchpad(memory)));
    });
  },
  // A program on a device, with one table of kernels.
  async run({ device, regions, text, memory, kernels }) {
    const module = await fresh(), { config, busBits, timing } = devices[device];
    module.device(fromBase64(config), busBits, timing);
    const used = module.useKernels(kernels);
    module.regions(regions.map((bytes, k) => ({ kind: data.exercises[0].regions[k].kind, bytes: fromBase64(bytes) })));
    module.assemble(text);
    const status = module.run(ALL_STEPS, 0);
    return { used, status, result: module.result(), scratchpad: base64(module.scratchpad(memory)) };
  },
  // Runs of an artifact, one for each input, with every table of kernels.
  async artifact({ file, inputs, kernels }) {
    const module = await fresh();
    const about = openArtifact(module, new Uint8Array(readFileSync(file)), devices);
    const used = module.useKernels(kernels);
    const runs = inputs.map((input) => {
      module.setInput(0, fromBase64(input));
      const before = performance.now();
      module.infer(NONE, ALL_STEPS);
      return { milliseconds: performance.now() - before, cycles: module.cycles(), outputs: module.outputs().map(base64) };
    });
    return { about, used, runs, programs: module.programs() };
  },
  // One layer's instructions, up to a step: the order, and a scratchpad behind it.
  async steps({ file, input, program, steps, memory }) {
    const module = await fresh();
    openArtifact(module, new Uint8Array(readFileSync(file)), devices);
    module.setInput(0, fromBase64(input));
    const cut = module.infer(program, steps);
    return { cut, order: module.order(), scratchpad: base64(module.scratchpad(memory)), events: module.events().length };
  },
  async broken({ bytes }) {
    try {
      return openArtifact(await fresh(), fromBase64(bytes), devices);
    } catch (error) {
      return { error: error.message };
    }
  },
};

const requests = JSON.parse(readFileSync(0, "utf8"));
const all = [];
for (const request of requests) all.push(await answers[request.what](request));
process.stdout.write(JSON.stringify(all));
