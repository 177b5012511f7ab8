// An artifact of the visitor: opened for its device, run, its programs divided into layers.
//
// In:   the module, bytes of a .lds file, devices.json.
// Out:  `openArtifact`, `layersOf`.
// Next: network.mjs shows it; tests run it in Node.
// SPDX-License-Identifier: Apache-2.0
import { fromBase64 } from "./bench.mjs";

const same = (a, b) => a.length === b.length && a.every((byte, k) => byte === b[k]);

// The artifact's name and its device. Only a built-in device has cycles: an Error names any other.
export function openArtifact(module, bytes, devices) {
  const { name, device, config } = module.artifact(bytes);
  const known = devices[device];
  if (known === undefined || !same(fromBase64(known.config), config))
    throw new Error(`device ${device} of this artifact is none that the lab knows: ${Object.keys(devices).join(", ")}`);
  module.device(config, known.busBits, known.timing);
  module.session();
  return { name, device, inputBytes: module.inputBytes() };
}

// [{ program, layer, insns }]: each program's instructions by the layer that they are for, in the order of the layers' first ones. The
// loads of a layer may stand among the instructions of the one before.
export function layersOf(module) {
  return module.programs().flatMap((count, program) => {
    const layers = new Map();
    for (let insn = 0; insn < count; ++insn) {
      const layer = module.layer(program, insn);
      if (!layers.has(layer)) layers.set(layer, { program, layer, insns: [] });
      layers.get(layer).insns.push(insn);
    }
    return [...layers.values()];
  });
}
