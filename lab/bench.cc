// The workbench: a visitor's program on memory that the page fills.
//
// In:   regions with their contents, text.
// Out:  instructions; the validator's verdict; the regions after a run.
// Next: page/bench.mjs.
//
// Regions stand one behind the other at a bus address, the program behind them. The validator sees them as a model that has nothing else.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "lab.h"
#include "text.h"

extern "C" {  // private to runtime/, in C
#include "format.h"
}

namespace lds::lab {
namespace {

constexpr uint64_t kBus = 0x10000000u;
constexpr uint32_t kAlign = 64, kRegionEntry = 32, kDeviceEntry = 40, kFingerprintAt = 8;
constexpr uint64_t kReadOnly = uint64_t{1} << 63;

struct Bench {
  std::vector<uint8_t> memory[LDS_MAX_REGIONS];
  uint32_t kind[LDS_MAX_REGIONS] = {};
  uint32_t count = 0;
  Assembled program;
  lds_fault fault{};
};

Bench &bench() {
  static Bench only;
  return only;
}

bool is_written(uint32_t kind) { return kind != LDS_REGION_CONSTANTS && kind != LDS_REGION_INPUT; }

void put(std::vector<uint8_t> *bytes, size_t at, uint32_t value) { std::memcpy(bytes->data() + at, &value, sizeof value); }

int validate(const Bench &b, lds_fault *fault) {
  std::vector<uint8_t> regions(size_t{b.count} * kRegionEntry), device(kDeviceEntry);
  const uint8_t *constants[LDS_MAX_REGIONS] = {};
  for (uint32_t r = 0; r < b.count; ++r) {
    put(&regions, size_t{r} * kRegionEntry, b.kind[r]);
    put(&regions, size_t{r} * kRegionEntry + 4, LDS_DMA_DEVICE_READS | (is_written(b.kind[r]) ? uint32_t{LDS_DMA_DEVICE_WRITES} : 0u));
    put(&regions, size_t{r} * kRegionEntry + 8, static_cast<uint32_t>(b.memory[r].size()));
    if (b.kind[r] == LDS_REGION_CONSTANTS) constants[r] = b.memory[r].data();
  }
  std::memcpy(device.data() + kFingerprintAt, &lab().config, sizeof lab().config);
  lds_model model{};
  model.section[LDS_REGION_TABLE] = {regions.data(), b.count};
  model.section[LDS_DEVICES] = {device.data(), 1};
  std::vector<uint64_t> scratch(lds_validate_scratch_bytes(&model, 0) / sizeof(uint64_t) + 1);
  return lds_validate(&model, 0, b.program.bytes.data(), static_cast<uint32_t>(b.program.lines.size()), constants, scratch.data(), fault);
}

}  // namespace

// Behind lab_device: no regions, no program.
LAB_EXPORT(lab_bench) void lab_bench() { bench() = Bench(); }

// The next region, zeroed: kind as in runtime/FORMAT.md. Valid until lab_bench; nullptr: there are too many.
LAB_EXPORT(lab_region) uint8_t *lab_region(uint32_t kind, uint32_t size_bytes) {
  Bench &b = bench();
  if (b.count == LDS_MAX_REGIONS) return nullptr;
  b.kind[b.count] = kind;
  b.memory[b.count].assign(size_bytes, 0);
  return b.memory[b.count++].data();
}

// The number of instructions, or -1.
LAB_EXPORT(lab_assemble) int lab_assemble(const char *text) {
  try {
    bench().program = assemble(text, lab().widths());
  } catch (const Refusal &refusal) {
    return refuse(refusal.message);
  }
  lab().program = bench().program.bytes;
  return static_cast<int>(bench().program.lines.size());
}

// The line of each instruction of the text.
LAB_EXPORT(lab_lines) const uint32_t *lab_lines() { return bench().program.lines.data(); }

// LDS_OK, or the validator's refusal, whose instruction is lab_fault.
LAB_EXPORT(lab_validate) int lab_validate() {
  const int status = validate(bench(), &bench().fault);
  return status == LDS_OK ? 0 : refuse(lds_status_text(status));
}
LAB_EXPORT(lab_fault) uint32_t lab_fault() { return bench().fault.instruction; }

// Runs the program, or `steps` instructions of it, from empty scratchpads. order: LDS_SIM_ORDER_*. The device's status.
LAB_EXPORT(lab_run) uint32_t lab_run(uint32_t steps, int order) {
  Bench &b = bench();
  lds_sim *sim = lab().sim;
  uint64_t bus = kBus;
  lds_sim_unmap_all(sim);
  lds_sim_reset(sim);
  for (uint32_t r = 0; r < LDS_MAX_REGIONS; ++r) {
    const uint64_t size = r < b.count ? b.memory[r].size() : 0, limit = is_written(b.kind[r]) ? size : size | kReadOnly;
    (void)lds_sim_map(sim, bus, b.memory[r].data(), size, is_written(b.kind[r]) ? 0 : LDS_SIM_READ_ONLY);
    (void)lds_sim_set_region(sim, r, bus, limit);
    bus += (size + kAlign - 1) / kAlign * kAlign;
  }
  (void)lds_sim_map(sim, bus, b.program.bytes.data(), b.program.bytes.size(), LDS_SIM_READ_ONLY);
  run(bus, b.program.bytes.data(), static_cast<uint32_t>(b.program.lines.size()), steps, order, Record::kAll);
  return lab().result.status;
}

}  // namespace lds::lab
