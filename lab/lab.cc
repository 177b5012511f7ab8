// Implementation of lab.h, and what the page asks about the last run.
//
// In:   calls of the page; memory is the module's own.
// Out:  rows of uint32: page/module.mjs has the names of their columns.
// Next: bench.cc.
// SPDX-License-Identifier: Apache-2.0
#include "lab.h"

#include <cstdlib>
#include <cstring>

#include "text.h"

namespace lds::lab {
namespace {

constexpr int kBadArgument = -1;
constexpr uint32_t kEventColumns = 9, kFindingColumns = 7, kInsnColumns = 4;

std::vector<uint32_t> rows;     // what the last call returned
std::vector<uint8_t> contents;  // of a scratchpad

uint32_t low(uint64_t value) { return value > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(value); }

struct Steps {
  uint32_t most;
  bool record;
};

// Before each instruction: whether the run ends here.
int next_step(void *ctx, uint32_t insn) {
  const Steps *steps = static_cast<const Steps *>(ctx);
  if (lab().order.size() >= steps->most) return 1;
  if (steps->record || steps->most != kAllSteps) lab().order.push_back(insn);
  return 0;
}

bool decoded(uint32_t index, lds_insn *insn) {
  const size_t at = size_t{index} * LDS_INSN_BYTES;
  return at + LDS_INSN_BYTES <= lab().program.size() && lds_insn_decode(lab().widths(), lab().program.data() + at, insn) == LDS_ISA_OK;
}

}  // namespace

Lab &lab() {
  static Lab only;
  return only;
}

int refuse(std::string why) {
  lab().message = std::move(why);
  return kBadArgument;
}

uint32_t Lab::depth(uint32_t memory) const {
  const lds_isa_widths w = widths();
  const uint32_t logs[] = {0, w.lw, w.li, w.la, w.la, w.la};
  return memory == LDS_MEMORY_UOP ? config.uop_depth : uint32_t{1} << logs[memory];
}

uint32_t Lab::tile_bytes(uint32_t memory) const {
  const uint32_t lanes = uint32_t{1} << (config.log_batch + config.log_block), element = config.log_inp_width / 4u;  // log2 of its bytes
  if (memory == LDS_MEMORY_UOP) return LDS_UOP_BYTES;
  if (memory == LDS_MEMORY_ACC) return lanes * 4u;
  return (memory == LDS_MEMORY_WGT ? uint32_t{1} << 2u * config.log_block : lanes) << element;
}

void run(uint64_t bus, const uint8_t *cpu, uint32_t count, uint32_t steps, int order, Record record) {
  Lab &l = lab();
  const bool all = record == Record::kAll;
  Steps asked = {steps, all};
  l.program.assign(cpu, cpu + size_t{count} * LDS_INSN_BYTES);
  l.order.clear();
  for (const int option : {LDS_SIM_TRACE, LDS_SIM_CHECK_RACES, LDS_SIM_CHECK_INIT}) (void)lds_sim_set_option(l.sim, option, all);
  (void)lds_sim_set_option(l.sim, LDS_SIM_ORDER, order);
  lds_sim_on_insn(l.sim, all || steps != kAllSteps ? next_step : nullptr, &asked);
  if (lds_sim_run(l.sim, bus, count, kCycleLimit, &l.result) < 0) l.result.status = LDS_ERROR_BAD_INSTRUCTION;
  lds_sim_on_insn(l.sim, nullptr, nullptr);
  l.message = lds_sim_message(l.sim);
}

// --- the device -----------------------------------------------------------------------------------------------------------------
LAB_EXPORT(lab_alloc) void *lab_alloc(size_t size) { return std::malloc(size); }
LAB_EXPORT(lab_free) void lab_free(void *p) { std::free(p); }

// Before anything else: the device of all that follows.
LAB_EXPORT(lab_device) int lab_device(const uint8_t *config, uint32_t bus_bits) {
  Lab &l = lab();
  lds_sim_destroy(l.sim);
  l.program.clear();
  l.order.clear();
  l.result = {};
  std::memcpy(&l.config, config, sizeof l.config);
  l.sim = lds_sim_create(&l.config, bus_bits);
  return l.sim == nullptr ? refuse("no device has this configuration") : 0;
}

LAB_EXPORT(lab_timing) int lab_timing(const char *name, int32_t value) {
  return lds_sim_set_timing(lab().sim, name, value) == LDS_SIM_OK ? 0 : refuse(lds_sim_message(lab().sim));
}

// 0: the best.
LAB_EXPORT(lab_kernels) int lab_kernels(int which) {
  if (lds_sim_set_option(lab().sim, LDS_SIM_KERNELS, which) != LDS_SIM_OK) return refuse(lds_sim_message(lab().sim));
  return lds_sim_get_option(lab().sim, LDS_SIM_KERNELS);
}

LAB_EXPORT(lab_message) const char *lab_message() { return lab().message.c_str(); }
LAB_EXPORT(lab_depth) uint32_t lab_depth(uint32_t memory) { return lab().depth(memory); }
LAB_EXPORT(lab_tile_bytes) uint32_t lab_tile_bytes(uint32_t memory) { return lab().tile_bytes(memory); }

// --- the run --------------------------------------------------------------------------------------------------------------------
LAB_EXPORT(lab_result) const uint32_t *lab_result() {
  const lds_sim_result &r = lab().result;
  rows = {r.status, r.error_pc, low(r.cycles), r.insns_done, r.findings};
  for (const uint64_t cycles : r.busy_cycles) rows.push_back(low(cycles));
  for (const uint64_t cycles : r.stall_token_cycles) rows.push_back(low(cycles));
  rows.push_back(low(r.macs));
  rows.push_back(static_cast<uint32_t>(lab().order.size()));
  return rows.data();
}

LAB_EXPORT(lab_order) const uint32_t *lab_order() { return lab().order.data(); }

LAB_EXPORT(lab_event_count) uint32_t lab_event_count() {
  const lds_sim_event *events = nullptr;
  return static_cast<uint32_t>(lds_sim_events(lab().sim, &events));
}

LAB_EXPORT(lab_events) const uint32_t *lab_events() {
  const lds_sim_event *events = nullptr;
  const size_t count = lds_sim_events(lab().sim, &events);
  rows.clear();
  rows.reserve(count * kEventColumns);
  for (size_t k = 0; k < count; ++k) {
    const lds_sim_event &e = events[k];
    const uint32_t row[kEventColumns] = {e.insn,     e.stage,     low(e.enter), low(e.ready), low(e.start),
                                         low(e.end), e.from_prev, e.from_next,  e.dram_cycles};
    rows.insert(rows.end(), row, row + kEventColumns);
  }
  return rows.data();
}

LAB_EXPORT(lab_finding_count) uint32_t lab_finding_count() {
  const lds_sim_finding *findings = nullptr;
  return static_cast<uint32_t>(lds_sim_findings(lab().sim, &findings));
}

LAB_EXPORT(lab_findings) const uint32_t *lab_findings() {
  const lds_sim_finding *findings = nullptr;
  const size_t count = lds_sim_findings(lab().sim, &findings);
  rows.clear();
  for (size_t k = 0; k < count; ++k) {
    const lds_sim_finding &f = findings[k];
    const uint32_t row[kFindingColumns] = {f.kind, f.memory, f.insn, f.other, f.writes, f.count, low(f.first)};
    rows.insert(rows.end(), row, row + kFindingColumns);
  }
  return rows.data();
}

// --- the program ----------------------------------------------------------------------------------------------------------------
LAB_EXPORT(lab_insn_count) uint32_t lab_insn_count() { return static_cast<uint32_t>(lab().program.size() / LDS_INSN_BYTES); }

// Its stage and its token queues, as bits; a stage that is none: it does not decode.
LAB_EXPORT(lab_insn) const uint32_t *lab_insn(uint32_t index) {
  constexpr uint32_t pops[2][3] = {LDS_QUEUE_OF_POP_PREV, LDS_QUEUE_OF_POP_NEXT};
  constexpr uint32_t pushes[2][3] = {LDS_QUEUE_OF_PUSH_PREV, LDS_QUEUE_OF_PUSH_NEXT};
  lds_insn insn;
  rows.assign(kInsnColumns, UINT32_MAX);
  if (!decoded(index, &insn)) return rows.data();
  const uint32_t stage = lds_stage_of(&insn), none = uint32_t{1} << LDS_QUEUES;
  const auto bit = [stage](bool flag, const uint32_t(&queues)[3]) { return flag ? uint32_t{1} << queues[stage] : 0u; };
  rows = {insn.opcode, stage, (bit(insn.flags.pop_prev, pops[0]) | bit(insn.flags.pop_next, pops[1])) & ~none,
          (bit(insn.flags.push_prev, pushes[0]) | bit(insn.flags.push_next, pushes[1])) & ~none};
  return rows.data();
}

LAB_EXPORT(lab_insn_text) const char *lab_insn_text(uint32_t index) {
  lds_insn insn;
  lab().text = decoded(index, &insn) ? print(values_of(insn)) : "no instruction";
  return lab().text.c_str();
}

// --- scratchpads ----------------------------------------------------------------------------------------------------------------
// All tiles of a scratchpad as a LOAD would have brought them.
LAB_EXPORT(lab_scratchpad) const uint8_t *lab_scratchpad(uint32_t memory) {
  contents.assign(size_t{lab().depth(memory)} * lab().tile_bytes(memory), 0);
  (void)lds_sim_read_scratchpad(lab().sim, memory, 0, lab().depth(memory), contents.data());
  return contents.data();
}

// Rows of dst, src, wgt of so many micro-ops.
LAB_EXPORT(lab_micro_ops) const uint32_t *lab_micro_ops(const uint8_t *bytes, uint32_t count) {
  rows.clear();
  for (uint32_t k = 0; k < count; ++k) {
    uint32_t bits = 0;
    std::memcpy(&bits, bytes + size_t{k} * LDS_UOP_BYTES, sizeof bits);
    const lds_uop uop = lds_uop_decode(lab().widths(), bits);
    rows.insert(rows.end(), {uop.dst, uop.src, uop.wgt});
  }
  return rows.data();
}

// --- words ----------------------------------------------------------------------------------------------------------------------
namespace {
template <size_t kCount>
const char *word(const Word (&words)[kCount], uint32_t index) {
  return index < kCount ? words[index].text : "";
}
}  // namespace

// "" behind the last.
LAB_EXPORT(lab_stage_name) const char *lab_stage_name(uint32_t index) { return word(kStages, index); }
LAB_EXPORT(lab_memory_name) const char *lab_memory_name(uint32_t index) { return word(kMemories, index); }
LAB_EXPORT(lab_queue_name) const char *lab_queue_name(uint32_t index) { return word(kTokenQueues, index); }

}  // namespace lds::lab
