// An artifact in the page: the C runtime, as on a board, over a device without registers and without a thread.
//
// In:   an artifact's bytes, inputs.
// Out:  outputs, cycles; one of its programs instruction by instruction.
// Next: page/artifact.mjs.
//
// The block's `start` runs the program, and `state` says how it ended: nothing waits.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>

#include "lab.h"

extern "C" {  // private to runtime/, in C
#include "geometry.h"
#include "lds_pool.h"
#include "program.h"
}

namespace lds::lab {
namespace {

constexpr uint64_t kBus = 0x10000000u;
constexpr uint32_t kBlocks = 64, kSpareBytes = 1u << 20;  // spare: alignments
constexpr uint32_t kNone = UINT32_MAX;

struct Opened {
  ~Opened() { lds_session_close(session); }

  std::vector<uint8_t> file;
  lds_model model{};
  std::vector<uint8_t> heap, memory;
  lds_pool pool{};
  lds_pool_block blocks[kBlocks]{};
  lds_hal hal{};
  lds_device device{};
  lds_session *session = nullptr;
  lds_fault fault{};
  uint32_t started = 0;  // programs of this run
  uint32_t watched = kNone, steps = kAllSteps;
  lds_sim_result result{};         // of the last program
  std::vector<uint32_t> programs;  // their steps
};

std::unique_ptr<Opened> &opened() {
  static std::unique_ptr<Opened> only;
  return only;
}

// --- HAL and register block -----------------------------------------------------------------------------------------------------
int dma_alloc(void *, size_t size, size_t align, uint32_t flags, lds_dma_buffer *out) {
  return lds_pool_alloc(&opened()->pool, size, align, flags, out);
}
void dma_free(void *ctx, lds_dma_buffer *buffer) { lds_pool_free(&static_cast<Opened *>(ctx)->pool, buffer); }
uint64_t now_ns(void *) {  // nothing waits: time need not pass, only not go back
  static uint64_t calls;
  return ++calls;
}
// The block has no registers.
uint32_t read32(void *, uint32_t) { return 0; }
void write32(void *, uint32_t, uint32_t) {}

int identify(const lds_hal *, uint32_t hash) { return hash == lds_model_config_hash(&opened()->model, 0) ? LDS_HAL_OK : LDS_HAL_FAILED; }

void start(const lds_hal *, const lds_job *job) {
  Opened &o = *opened();
  for (uint32_t r = 0; r < LDS_MAX_REGIONS; ++r) {
    const uint64_t read_only = (job->writable >> r & 1u) != 0 ? 0 : uint64_t{1} << 63;
    (void)lds_sim_set_region(lab().sim, r, job->region_bus[r], job->region_size_bytes[r] | read_only);
  }
  const bool watched = o.started++ == o.watched;
  run(job->insn_bus, job->insn_cpu, job->insn_count, watched ? o.steps : kAllSteps, LDS_SIM_ORDER_PROGRAM,
      watched ? Record::kAll : Record::kNothing);
  o.result = lab().result;
}

void state(const lds_hal *, lds_device_state *out) {
  const lds_sim_result &r = opened()->result;
  *out = {r.status == 0 ? LDS_STATE_DONE : LDS_STATE_ERROR, r.status, r.error_pc, static_cast<uint32_t>(r.error_address), r.insns_done, 0};
}
void irq_clear(const lds_hal *) {}
int stop(const lds_hal *, int) { return LDS_HAL_OK; }

void counters(const lds_hal *, lds_counters *out) {
  const lds_sim_result &r = opened()->result;
  *out = {r.cycles, r.busy_cycles[0], r.busy_cycles[1], r.busy_cycles[2], 0, r.write_bytes, 0};
  for (const uint64_t bytes : r.read_bytes) out->read_bytes += bytes;
}

constexpr lds_register_block kBlock = {"lab", LDS_BLOCK_REGIONS | LDS_BLOCK_NO_IRQ, identify, start, state, irq_clear, stop, counters};

int refuse_status(int status) { return status == LDS_OK ? 0 : refuse(lds_status_text(status)); }

// Bytes of memory that a session of the model takes.
size_t pool_bytes(const lds_model &model) {
  size_t size = size_t{model.size_bytes} + kSpareBytes;
  for (uint32_t r = 0; r < model.section[LDS_REGION_TABLE].count; ++r) {
    const lds_region region = lds_model_region(&model, r);
    size = lds_size_sum(size, lds_size_sum(region.size_bytes, region.align_bytes));
  }
  return size;
}

int open_session(Opened &o) {
  lds_session_config config;
  o.heap.resize(pool_bytes(o.model) + LDS_DMA_MAX_ALIGN);
  o.pool = {};
  o.pool.cpu = o.heap.data() + lds_padding(reinterpret_cast<uintptr_t>(o.heap.data()), LDS_DMA_MAX_ALIGN);
  o.pool.bus = kBus;
  o.pool.size_bytes = static_cast<uint32_t>(o.heap.size() - LDS_DMA_MAX_ALIGN);
  o.pool.blocks = o.blocks;
  o.pool.capacity = kBlocks;
  lds_sim_unmap_all(lab().sim);
  lds_sim_reset(lab().sim);
  if (lds_sim_map(lab().sim, kBus, o.pool.cpu, o.pool.size_bytes, 0) != LDS_SIM_OK) return LDS_ERR_MEMORY;
  o.hal = {
      LDS_HAL_ABI_VERSION, &o, read32, write32, dma_alloc, dma_free, nullptr, nullptr, nullptr, now_ns, nullptr, nullptr, nullptr, nullptr};
  int status = lds_device_open(&o.device, &o.hal, &kBlock, 0);
  if (status != LDS_OK) return status;
  lds_session_config_default(&config);
  lds_session_config_all(&config);
  const size_t bytes = lds_session_size_bytes(&o.model, &config);
  if (bytes == SIZE_MAX) return LDS_ERR_MEMORY;
  o.memory.resize(bytes);
  return lds_session_open(&o.session, &o.model, &o.device, &config, o.memory.data(), o.memory.size(), &o.fault);
}

lds_program program_at(uint32_t index) {
  lds_program p;
  lds_program_at(&opened()->model, opened()->programs[index], &p);
  return p;
}

uint32_t port_bytes(int (*port)(const lds_model *, uint32_t, lds_tensor *), uint32_t index) {
  lds_tensor t;
  return port(&opened()->model, index, &t) == LDS_OK ? t.size_bytes : 0;
}

}  // namespace

// Reads the file: lab_artifact_device says for which device; lab_device, then lab_session.
LAB_EXPORT(lab_artifact) int lab_artifact(const uint8_t *bytes, size_t size) {
  opened() = std::make_unique<Opened>();
  Opened &o = *opened();
  o.file.assign(bytes, bytes + size);
  const int status = lds_model_open(&o.model, o.file.data(), o.file.size());
  if (status != LDS_OK) return refuse_status(status);
  if (o.model.section[LDS_DEVICES].count != 1)
    return refuse("the lab has one device, and this artifact is for several: loadstone profile has them all");
  if (lds_hashed_bytes(lds_model_fingerprint(&o.model, 0)) != LDS_CONFIGURATION_BYTES) return refuse("the artifact is not for a VTA");
  for (uint32_t k = 0; k < lds_first_steps(&o.model); ++k)
    if (lds_model_step(&o.model, k).kind == LDS_STEP_PROGRAM) o.programs.push_back(k);
  return 0;
}
LAB_EXPORT(lab_artifact_device) const char *lab_artifact_device() { return lds_model_device(&opened()->model, 0); }
LAB_EXPORT(lab_artifact_name) const char *lab_artifact_name() { return lds_model_name(&opened()->model); }
LAB_EXPORT(lab_artifact_config) const uint8_t *lab_artifact_config() { return lds_model_fingerprint(&opened()->model, 0); }

LAB_EXPORT(lab_session) int lab_session() { return refuse_status(open_session(*opened())); }

LAB_EXPORT(lab_inputs) uint32_t lab_inputs() { return lds_model_input_count(&opened()->model); }
LAB_EXPORT(lab_outputs) uint32_t lab_outputs() { return lds_model_output_count(&opened()->model); }
LAB_EXPORT(lab_input) void *lab_input(uint32_t k) { return lds_session_input(opened()->session, k); }
LAB_EXPORT(lab_output) void *lab_output(uint32_t k) { return lds_session_output(opened()->session, k); }
LAB_EXPORT(lab_input_bytes) uint32_t lab_input_bytes(uint32_t k) { return port_bytes(lds_model_input, k); }
LAB_EXPORT(lab_output_bytes) uint32_t lab_output_bytes(uint32_t k) { return port_bytes(lds_model_output, k); }

// One run. The program with number `watched` is recorded, and ends after `steps` instructions: 1 then, where the rest was not run.
LAB_EXPORT(lab_infer) int lab_infer(uint32_t watched, uint32_t steps) {
  Opened &o = *opened();
  o.started = 0;
  o.watched = watched;
  o.steps = steps;
  lds_sim_reset(lab().sim);
  const int status = lds_session_run(o.session);
  if (status == LDS_OK) return 0;
  lds_session_fault(o.session, &o.fault);
  if (o.fault.error == LDS_ERROR_ABORTED && o.started == watched + 1) return 1;
  const std::string why = lab().message;
  return refuse(std::string(lds_status_text(status)) + (why.empty() ? "" : ": " + why));
}

// Of the whole run.
LAB_EXPORT(lab_cycles) double lab_cycles() {
  lds_counters c;
  lds_session_counters(opened()->session, &c);
  return static_cast<double>(c.cycles);
}

LAB_EXPORT(lab_programs) uint32_t lab_programs() { return static_cast<uint32_t>(opened()->programs.size()); }
LAB_EXPORT(lab_program_insns) uint32_t lab_program_insns(uint32_t index) { return program_at(index).instructions; }
// The layer of an instruction of a program; "" for none.
LAB_EXPORT(lab_layer) const char *lab_layer(uint32_t index, uint32_t insn) {
  const lds_program p = program_at(index);
  return lds_program_layer(&opened()->model, &p, insn);
}

}  // namespace lds::lab
