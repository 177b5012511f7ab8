// The WebAssembly module as an object: the only file that knows its memory.
//
// In:   the bytes of lab.wasm.
// Out:  `openModule`: a device, a workbench, an artifact (lab.cc, bench.cc, artifact.cc), with arrays and objects for rows of words.
// Next: bench.mjs and artifact.mjs.
// SPDX-License-Identifier: Apache-2.0

export const ALL_STEPS = 0xffffffff;
export const NONE = 0xffffffff;

// Columns of the rows that the module returns.
const RESULT = ["status", "errorInsn", "cycles", "insnsDone", "findings", "busyLoad", "busyCompute", "busyStore",
  "waitLoad", "waitCompute", "waitStore", "macs", "steps"];
const EVENT = ["insn", "stage", "enter", "ready", "start", "end", "fromPrev", "fromNext", "dramCycles"];
const FINDING = ["kind", "memory", "insn", "other", "writes", "count", "first"];
const INSN = ["opcode", "stage", "pops", "pushes"];
const MICRO_OP = ["dst", "src", "wgt"];

export async function openModule(wasm) {
  const compiled = await WebAssembly.compile(wasm);
  let c = null;
  // What the C library asks of its host: a clock, and nothing else that matters.
  const clock = (_id, _precision, at) => {
    new DataView(c.memory.buffer).setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
    return 0;
  };
  const imports = {};
  for (const { module, name } of WebAssembly.Module.imports(compiled)) {
    imports[module] ??= {};
    imports[module][name] = name === "clock_time_get" ? clock : () => 0;
  }
  c = (await WebAssembly.instantiate(compiled, imports)).exports;
  c._initialize();

  const bytes = (at, size) => new Uint8Array(c.memory.buffer, at, size);
  const string = (at) => {
    const all = new Uint8Array(c.memory.buffer);
    return new TextDecoder().decode(all.subarray(at, all.indexOf(0, at)));
  };
  const words = (at, count) => Array.from(new Uint32Array(c.memory.buffer, at, count));
  const rows = (at, count, columns) => {
    const all = words(at, count * columns.length);
    return Array.from({ length: count }, (_, row) =>
      Object.fromEntries(columns.map((name, k) => [name, all[row * columns.length + k]])));
  };
  const row = (at, columns) => rows(at, 1, columns)[0];
  // Calls with a copy of the data, which is freed behind the call.
  const withBytes = (data, call) => {
    const at = c.lab_alloc(Math.max(data.length, 1));
    if (at === 0) throw new Error("the page has no memory left");
    bytes(at, data.length).set(data);
    try { return call(at, data.length); } finally { c.lab_free(at); }
  };
  const withText = (text, call) => withBytes(new TextEncoder().encode(`${text}\0`), call);
  const done = (status) => { if (status < 0) throw new Error(string(c.lab_message())); return status; };
  const names = (of) => { const all = []; for (let k = 0; string(of(k)) !== ""; ++k) all.push(string(of(k))); return all; };

  return {
    stages: names(c.lab_stage_name),
    memories: names(c.lab_memory_name),
    queues: names(c.lab_queue_name),
    message: () => string(c.lab_message()),

    // config: bytes of HwConfig.configuration(); timing: constants by name.
    device(config, busBits, timing) {
      done(withBytes(config, (at) => c.lab_device(at, busBits)));
      for (const [name, value] of Object.entries(timing)) done(withText(name, (at) => c.lab_timing(at, value)));
    },
    useKernels: (which) => done(c.lab_kernels(which)),
    depth: (memory) => c.lab_depth(memory),
    tileBytes: (memory) => c.lab_tile_bytes(memory),

    // The last run.
    result: () => row(c.lab_result(), RESULT),
    order: () => words(c.lab_order(), row(c.lab_result(), RESULT).steps),
    events: () => rows(c.lab_events(), c.lab_event_count(), EVENT),
    findings: () => rows(c.lab_findings(), c.lab_finding_count(), FINDING),
    insnCount: () => c.lab_insn_count(),
    insn: (index) => row(c.lab_insn(index), INSN),
    text: (index) => string(c.lab_insn_text(index)),
    scratchpad: (memory) => bytes(c.lab_scratchpad(memory), c.lab_depth(memory) * c.lab_tile_bytes(memory)).slice(),
    microOps: (data) => withBytes(data, (at, size) => rows(c.lab_micro_ops(at, size / 4), size / 4, MICRO_OP)),

    // The workbench. regions: { kind, bytes }; what a run does to one is read by the function that `regions` returns.
    regions(all) {
      c.lab_bench();
      const places = all.map(({ kind, bytes: data }) => ({ at: c.lab_region(kind, data.length), size: data.length }));
      if (places.some(({ at, size }) => at === 0 && size > 0)) throw new Error("too many regions");
      all.forEach(({ bytes: data }, k) => bytes(places[k].at, data.length).set(data));
      return (k) => bytes(places[k].at, places[k].size).slice();
    },
    assemble: (text) => done(withText(text, (at) => c.lab_assemble(at))),
    lines: (count) => words(c.lab_lines(), count),
    // null, or why the validator refuses which instruction.
    validate: () => (c.lab_validate() === 0 ? null : { insn: c.lab_fault(), why: string(c.lab_message()) }),
    run: (steps, order) => c.lab_run(steps, order),

    // An artifact: `artifact` says for which device, then `device`, then `session`.
    artifact(data) {
      done(withBytes(data, (at, size) => c.lab_artifact(at, size)));
      return { name: string(c.lab_artifact_name()), device: string(c.lab_artifact_device()), config: bytes(c.lab_artifact_config(), 20).slice() };
    },
    session: () => done(c.lab_session()),
    inputBytes: () => Array.from({ length: c.lab_inputs() }, (_, k) => c.lab_input_bytes(k)),
    setInput: (k, data) => bytes(c.lab_input(k), c.lab_input_bytes(k)).set(data),
    outputs: () => Array.from({ length: c.lab_outputs() }, (_, k) => bytes(c.lab_output(k), c.lab_output_bytes(k)).slice()),
    // 0, or 1: the watched program ended after so many steps.
    infer: (watched, steps) => done(c.lab_infer(watched, steps)),
    cycles: () => c.lab_cycles(),
    programs: () => Array.from({ length: c.lab_programs() }, (_, k) => c.lab_program_insns(k)),
    layer: (program, insn) => string(c.lab_layer(program, insn)),
  };
}
