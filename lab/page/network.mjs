// The visitor's own artifact: run, and one of its layers step by step.
//
// In:   the module, devices.json, files that the visitor chooses.
// Out:  cycles and outputs; a table of layers; the chosen one goes to look.mjs.
// Next: artifact.mjs opens it.
// SPDX-License-Identifier: Apache-2.0
import { layersOf, openArtifact } from "./artifact.mjs";
import { byId, element } from "./dom.mjs";
import { verdict } from "./exercises.mjs";
import { hide, show } from "./look.mjs";
import { ALL_STEPS, NONE } from "./module.mjs";

const contents = async (file) => new Uint8Array(await file.arrayBuffer());
const counter = (size) => Uint8Array.from({ length: size }, (_, k) => k);

export class Network {
  constructor(module, devices) {
    this.module = module;
    this.devices = devices;
  }

  open() {
    byId("title").textContent = "Your artifact";
    byId("text").replaceChildren();
    byId("writing").hidden = true;
    byId("opening").hidden = false;
    byId("layers").replaceChildren();
    verdict([]);
    hide();
    for (const id of ["file", "data"]) byId(id).onchange = () => this.#run();
  }

  async #run() {
    const [file] = byId("file").files, [data] = byId("data").files;
    if (file === undefined) return;
    const { module } = this;
    hide();
    byId("layers").replaceChildren();
    try {
      const about = openArtifact(module, await contents(file), this.devices);
      await this.#fill(about.inputBytes, data);
      const before = performance.now();
      module.infer(NONE, ALL_STEPS);
      const took = performance.now() - before, [output] = module.outputs();
      document.body.dataset.cycles = String(module.cycles());
      document.body.dataset.output = Array.from(output, (byte) => byte.toString(16).padStart(2, "0")).join("");
      verdict([
        { ok: true, text: `${about.name} on ${about.device}: ${module.cycles().toLocaleString("en")} cycles, ${took.toFixed(1)} ms in this page` },
        { ok: true, text: `output, as bytes: ${Array.from(new Int8Array(output.slice().buffer)).slice(0, 16).join(" ")}${output.length > 16 ? " ..." : ""}` },
      ]);
      this.#table();
    } catch (error) {
      verdict([{ ok: false, text: error.message }]);
    }
  }

  // The inputs, one behind the other in the file.
  async #fill(sizes, data) {
    const wanted = sizes.reduce((sum, size) => sum + size, 0), bytes = data === undefined ? counter(wanted) : await contents(data);
    if (bytes.length !== wanted) throw new Error(`the input is ${bytes.length} bytes, and the network takes ${wanted}`);
    let at = 0;
    sizes.forEach((size, k) => { this.module.setInput(k, bytes.subarray(at, at + size)); at += size; });
  }

  #table() {
    const layers = layersOf(this.module);
    const line = (layer) => element("tr", {}, element("td", {}, layer.layer || "(no layer)"), element("td", {}, String(layer.insns.length)),
      element("td", {}, element("button", { onclick: (event) => this.#layer(layer, event.target) }, "step")));
    byId("layers").replaceChildren(element("table", {}, element("tr", {}, ...["layer", "instructions", ""].map((word) => element("th", {}, word))), ...layers.map(line)));
  }

  #layer({ program, insns }, button) {
    const { module } = this, mine = new Set(insns);
    for (const row of byId("layers").querySelectorAll("tr")) row.classList.toggle("now", row.contains(button));
    show({ module, shows: (insn) => mine.has(insn), runTo: (steps) => module.infer(program, steps) }, false);
  }
}
