// The C API of lds_sim.h over the C++ core: arguments are checked, and no exception leaves.
//
// In:   calls from C or cffi.
// Out:  status codes and results.
// Next: python/loadstone/vta/simulator/sim.py.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>

#include "bfloat16.h"
#include "check.h"
#include "constants.h"
#include "known.h"
#include "lds_sim.h"
#include "machine.h"
#include "program.h"
#include "run.h"
#include "stop.h"
#include "strict.h"
#include "timing.h"

using namespace lds::sim;  // NOLINT: this file only wraps

struct lds_sim {
  lds_sim(const Geometry &geometry, uint32_t bus) : machine(geometry, &poll), bus_bits(bus) {}

  Poll poll;
  Machine machine;
  uint32_t bus_bits;
  TimingConstants constants;
  uint32_t place_bytes = 0;  // lds_sim_at_worst
  int options[7] = {0, 1, 0, 0, 0, 0, LDS_SIM_ORDER_PROGRAM};
  std::string message;
  std::atomic<uint32_t> progress{0};
  std::unique_ptr<Checker> checker;  // from the first run that asks for checks
  std::vector<lds_sim_event> events;
  lds_sim_waiting waiting{};
  KnownPrograms known;
  Known *last = nullptr;         // the program of the last run; nullptr: none, or its cycles were not counted
  RunOutcome last_outcome;       // of that run, before it was timed
  lds_sim_result last_result{};  // likewise
  int (*ask_insn)(void *ctx, uint32_t insn) = nullptr;
  void *ask_insn_context = nullptr;
};

namespace {

// lds_sim_on_insn.
class Asker : public Observer {
 public:
  explicit Asker(const lds_sim &sim) : sim_(sim) {}
  void before(uint32_t index, const Insn &) override {
    if (sim_.ask_insn(sim_.ask_insn_context, index) != 0) throw Stop{LDS_ERROR_ABORTED, 0, "the run was ended before it"};
  }

 private:
  const lds_sim &sim_;
};

int refuse(lds_sim *sim, std::string why) {
  sim->message = std::move(why);
  return LDS_SIM_BAD_ARGUMENT;
}

bool bus_is_legal(uint32_t bits) { return bits == 32 || bits == 64 || bits == 128 || bits == 256 || bits == 512; }

// A copy of the stream, so that the checked instructions run even if the program overwrites its own stream.
std::vector<uint8_t> fetch(lds_sim *sim, uint64_t address, uint32_t count) {
  constexpr size_t kPartBytes = Poll::kPart / Poll::kByte;
  std::vector<uint8_t> bytes;
  const uint64_t wanted = uint64_t{count} * LDS_INSN_BYTES;  // may exceed a size_t of 32 bits, and then no memory holds it
  if (const uint8_t *host = sim->machine.dram.span(address, wanted, false)) {
    const size_t size = static_cast<size_t>(wanted);
    bytes.reserve(size);
    for (size_t done = 0; done < size; done = bytes.size()) {
      sim->poll.spend(Poll::kPart);
      bytes.insert(bytes.end(), host + done, host + done + std::min(size - done, kPartBytes));
    }
    return bytes;
  }
  uint8_t insn[LDS_INSN_BYTES];  // in pieces, so that a count without memory behind it costs nothing
  for (uint32_t n = 0; n < count; ++n) {
    sim->poll.spend(Poll::kBurst);
    sim->machine.dram.read(address + uint64_t{n} * LDS_INSN_BYTES, insn, sizeof insn);
    bytes.insert(bytes.end(), insn, insn + sizeof insn);
  }
  return bytes;
}

bool stands_there(lds_sim *sim, const Known &known) {
  const uint8_t *host = sim->machine.dram.span(known.address, known.bytes.size(), false);
  if (host == nullptr) return false;
  for (size_t done = 0, part = 0; done < known.bytes.size(); done += part) {
    part = std::min<size_t>(known.bytes.size() - done, Poll::kPart / Poll::kByte);
    if (std::memcmp(host + done, known.bytes.data() + done, part) != 0) return false;
    sim->poll.spend(Poll::kPart);
  }
  return true;
}

// The decoded program; that of an earlier run when all bytes are equal.
Known *program_at(lds_sim *sim, uint64_t address, uint32_t count) {
  Known *known = sim->known.find(address, count);
  if (known != nullptr && stands_there(sim, *known)) return known;
  std::vector<uint8_t> bytes = fetch(sim, address, count);
  Program program = decode_program(sim->machine.g, bytes.data(), count, &sim->poll);
  known = sim->known.add(address, count);
  known->bytes = std::move(bytes);
  known->program = std::move(program);
  return known;
}

// The checker, prepared for a run; nullptr when all checks are off.
Checker *begin_checks(lds_sim *sim, uint64_t insn_address, uint32_t count) {
  const bool races = sim->options[LDS_SIM_CHECK_RACES] != 0, uninitialised = sim->options[LDS_SIM_CHECK_INIT] != 0;
  if (!races && !uninitialised) {
    sim->checker.reset();
    return nullptr;
  }
  if (sim->checker == nullptr) sim->checker = std::make_unique<Checker>(sim->machine, races, uninitialised);
  sim->checker->begin(races, uninitialised, insn_address, insn_address + uint64_t{count} * LDS_INSN_BYTES);
  return sim->checker.get();
}

TimingInput timing_input(lds_sim *sim, const Known &known, const RunOutcome &outcome, uint64_t cycle_limit) {
  return {sim->machine.g, sim->machine.regions,     sim->constants, sim->place_bytes, sim->bus_bits, known.program,
          outcome.done,   outcome.slow_step_cycles, known.address,  known.count,      cycle_limit,   &sim->poll};
}

// The second pass. If it stops, its status replaces that of a program that ran to its FINISH.
void time_run(lds_sim *sim, Known *known, RunOutcome &outcome, uint64_t cycle_limit, lds_sim_result *result) {
  const bool traced = sim->options[LDS_SIM_TRACE] != 0;
  const TimingInput input = timing_input(sim, *known, outcome, cycle_limit);
  if (!traced && known->recall(input, result)) return;
  const TimingOutcome timed = time_program(input, result, traced ? &sim->events : nullptr);
  if (timed.status == LDS_ERROR_NONE) known->remember(input, *result);
  if (outcome.status != LDS_ERROR_NONE || timed.status == LDS_ERROR_NONE) return;
  result->status = outcome.status = timed.status;
  result->error_pc = outcome.pc = timed.pc;
  outcome.message = timed.message;
}

int run(lds_sim *sim, uint64_t insn_address, uint32_t count, uint64_t cycle_limit, lds_sim_result *result) {
  RunOutcome outcome;
  Known *known = nullptr;
  try {
    known = program_at(sim, insn_address, count);
  } catch (const Stop &stop) {
    result->status = stop.status;
    result->error_address = stop.address;
    sim->message = "instruction fetch: " + stop.message;
    return static_cast<int>(stop.status);
  }
  RunControl control;
  control.constants = sim->constants;
  control.slow = &known->slow;
  control.cycle_limit = cycle_limit;
  control.progress = &sim->progress;
  control.order = sim->options[LDS_SIM_ORDER];
  Asker asker(*sim);
  if (sim->ask_insn != nullptr) control.observers.push_back(&asker);
  Strict strict(sim->machine, known->program, count, sim->constants, sim->bus_bits);
  if (sim->options[LDS_SIM_STRICT] != 0) control.observers.push_back(&strict);
  if (Checker *checker = begin_checks(sim, insn_address, count)) control.observers.push_back(checker);
  outcome = run_program(sim->machine, known->program, control, result);
  result->read_bytes[LDS_SIM_READ_FETCH] = uint64_t{count} * LDS_INSN_BYTES;
  if (sim->checker != nullptr) result->findings = sim->checker->count();
  result->status = outcome.status;
  result->error_pc = outcome.pc;
  result->error_address = outcome.address;
  sim->waiting = outcome.waiting;
  if (sim->options[LDS_SIM_TIMING] != 0) {
    sim->last = known;
    sim->last_outcome = outcome;
    sim->last_result = *result;
    time_run(sim, known, outcome, cycle_limit, result);
  }
  if (outcome.status != LDS_ERROR_NONE) {
    if (outcome.message.empty()) outcome.message = why_refused(sim->machine.g, known->bytes.data() + size_t{outcome.pc} * LDS_INSN_BYTES);
    sim->message = format("instruction %u: %s", outcome.pc, outcome.message.c_str());
  }
  return static_cast<int>(result->status);
}

}  // namespace

lds_sim *lds_sim_create(const lds_hw_config *config, uint32_t bus_bits) {
  if (config == nullptr || !bus_is_legal(bus_bits)) return nullptr;
  const std::optional<Geometry> geometry = geometry_of(*config);
  if (!geometry) return nullptr;
  try {
    return new lds_sim(*geometry, bus_bits);
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

void lds_sim_destroy(lds_sim *sim) { delete sim; }

const char *lds_sim_message(const lds_sim *sim) { return sim->message.c_str(); }

int lds_sim_set_option(lds_sim *sim, int option, int value) {
  sim->message.clear();
  if (option < 0 || option > LDS_SIM_ORDER) return refuse(sim, format("option %d is unknown", option));
  if (option == LDS_SIM_ORDER) {
    if (value < LDS_SIM_ORDER_PROGRAM || value > LDS_SIM_ORDER_STORE_FIRST) return refuse(sim, format("order %d is unknown", value));
    sim->options[option] = value;
    return LDS_SIM_OK;
  }
  if (option == LDS_SIM_KERNELS) {
    try {
      return sim->machine.use_kernels(value) ? LDS_SIM_OK : refuse(sim, format("kernels %d are not available on this host", value));
    } catch (const std::bad_alloc &) {
      return LDS_SIM_NO_MEMORY;
    }
  }
  sim->options[option] = value != 0;
  return LDS_SIM_OK;
}

int lds_sim_get_option(const lds_sim *sim, int option) {
  if (option < 0 || option > LDS_SIM_ORDER) return LDS_SIM_BAD_ARGUMENT;
  return option == LDS_SIM_KERNELS ? sim->machine.kernels->path : sim->options[option];
}

int lds_sim_set_timing(lds_sim *sim, const char *name, int64_t value) {
  sim->message.clear();
  if (value < 0 || value > INT32_MAX)
    return refuse(sim, format("timing constant %s=%lld is outside [0, 2^31)", name, static_cast<long long>(value)));
  sim->known.clear();  // their cycles depend on what changed
  sim->last = nullptr;
  return set_constant(&sim->constants, name, value) ? LDS_SIM_OK : refuse(sim, format("timing constant %s is unknown", name));
}

int lds_sim_map(lds_sim *sim, uint64_t bus_address, void *memory, uint64_t size_bytes, uint32_t flags) {
  sim->message.clear();
  try {
    const Segment segment = {bus_address, size_bytes, static_cast<uint8_t *>(memory), (flags & LDS_SIM_READ_ONLY) != 0};
    if ((memory != nullptr || size_bytes == 0) && sim->machine.dram.map(segment)) return LDS_SIM_OK;
    return refuse(sim, format("memory at 0x%llx, 0x%llx bytes: no memory, or overlaps what is mapped",
                              static_cast<unsigned long long>(bus_address), static_cast<unsigned long long>(size_bytes)));
  } catch (const std::bad_alloc &) {
    return LDS_SIM_NO_MEMORY;
  }
}

void lds_sim_unmap_all(lds_sim *sim) { sim->machine.dram.unmap_all(); }

int lds_sim_set_region(lds_sim *sim, uint32_t region, uint64_t base, uint64_t limit) {
  sim->message.clear();
  if (region >= LDS_MAX_REGIONS) return refuse(sim, format("region %u is outside [0, %u]", region, LDS_MAX_REGIONS - 1u));
  if (!sim->machine.g.has(LDS_CAP_REGIONS)) return LDS_SIM_OK;  // like the RTL: dram_base then counts from bus address 0
  sim->machine.regions[region] = {base, limit & ~(uint64_t{1} << 63), (limit >> 63) != 0};
  return LDS_SIM_OK;
}

int lds_sim_at_worst(lds_sim *sim, uint32_t align_bytes) {
  sim->message.clear();
  if ((align_bytes & (align_bytes - 1)) != 0) return refuse(sim, format("%u bytes are no power of two", align_bytes));
  sim->place_bytes = align_bytes;
  sim->known.clear();  // their cycles depend on it
  sim->last = nullptr;
  return LDS_SIM_OK;
}

void lds_sim_reset(lds_sim *sim) {
  sim->machine.reset_scratchpads();
  if (sim->checker != nullptr) sim->checker->forget_writes();
}

int lds_sim_run(lds_sim *sim, uint64_t insn_address, uint32_t count, uint64_t cycle_limit, lds_sim_result *result) {
  std::memset(result, 0, sizeof *result);
  sim->message.clear();
  sim->events.clear();
  sim->last = nullptr;
  sim->poll.begin();
  sim->progress.store(0);
  sim->waiting = {{~0u, ~0u, ~0u}, {0, 0, 0}};
  try {
    return run(sim, insn_address, count, cycle_limit, result);
  } catch (const std::bad_alloc &) {
    sim->message = "the host has no memory left";
    return LDS_SIM_NO_MEMORY;
  }
}

int lds_sim_time_together(lds_sim *const *sims, uint32_t count, lds_sim_result *results) {
  if (count == 0) return LDS_SIM_BAD_ARGUMENT;
  std::vector<TimingInput> inputs;
  std::vector<TimedProgram> programs;
  try {
    inputs.reserve(count);
    for (uint32_t k = 0; k < count; ++k) {
      lds_sim *sim = sims[k];
      sim->message.clear();
      if (sim->last == nullptr) return refuse(sim, "no run of it was timed");
      if (std::find(sims, sims + k, sim) != sims + k) return refuse(sim, "it stands there twice");
      if (sim->bus_bits != sims[0]->bus_bits)
        return refuse(sim, format("a bus of %u bits is not one of %u", sim->bus_bits, sims[0]->bus_bits));
      results[k] = sim->last_result;
      inputs.push_back(timing_input(sim, *sim->last, sim->last_outcome, 0));
      const bool traced = sim->options[LDS_SIM_TRACE] != 0;
      if (traced) sim->events.clear();
      programs.push_back({&inputs[k], &results[k], traced ? &sim->events : nullptr});
    }
    const std::vector<TimingOutcome> timed = time_together(programs);
    for (uint32_t k = 0; k < count; ++k) {
      if (results[k].status != LDS_ERROR_NONE || timed[k].status == LDS_ERROR_NONE) continue;
      results[k].status = timed[k].status;
      results[k].error_pc = timed[k].pc;
    }
    return LDS_SIM_OK;
  } catch (const std::bad_alloc &) {
    return LDS_SIM_NO_MEMORY;
  }
}

void lds_sim_abort(lds_sim *sim) { sim->poll.abort.store(true); }

void lds_sim_on_poll(lds_sim *sim, int (*ask)(void *ctx), void *ctx) {
  sim->poll.ask = ask;
  sim->poll.ask_context = ctx;
}

void lds_sim_on_insn(lds_sim *sim, int (*ask)(void *ctx, uint32_t insn), void *ctx) {
  sim->ask_insn = ask;
  sim->ask_insn_context = ctx;
}

uint32_t lds_sim_progress(const lds_sim *sim) { return sim->progress.load(); }

size_t lds_sim_findings(const lds_sim *sim, const lds_sim_finding **findings) {
  if (sim->checker == nullptr) return 0;
  *findings = sim->checker->findings().data();
  return sim->checker->findings().size();
}

size_t lds_sim_events(const lds_sim *sim, const lds_sim_event **events) {
  *events = sim->events.data();
  return sim->events.size();
}

void lds_sim_deadlock(const lds_sim *sim, lds_sim_waiting *waiting) { *waiting = sim->waiting; }

int lds_sim_read_scratchpad(lds_sim *sim, uint32_t memory, uint32_t first_tile, uint32_t tiles, void *out) {
  const Machine &m = sim->machine;
  sim->message.clear();
  if (memory > LDS_MEMORY_ACC || first_tile > m.g.depth[memory] || tiles > m.g.depth[memory] - first_tile)
    return refuse(sim, format("tiles %u + %u are not in memory %u", first_tile, tiles, memory));
  for (uint32_t k = 0; k < tiles; ++k) {
    const uint32_t tile = first_tile + k;
    uint8_t *to = static_cast<uint8_t *>(out) + size_t{k} * m.g.dram_tile_bytes[memory];
    switch (memory) {
      case LDS_MEMORY_UOP: {
        const lds_uop uop = {m.uop[tile].dst, m.uop[tile].src, m.uop[tile].wgt};
        uint32_t bits = 0;
        (void)lds_uop_encode(m.g.widths, &uop, &bits);
        std::memcpy(to, &bits, sizeof bits);
        break;
      }
      case LDS_MEMORY_WGT:
        if (m.g.is_float)
          m.unpack_float_wgt(tile, to);
        else
          m.unpack_wgt(tile, reinterpret_cast<int8_t *>(to));
        break;
      case LDS_MEMORY_INP:
        if (m.g.is_float)
          for (uint32_t lane = 0; lane < m.g.lanes; ++lane)
            put_bfloat16(to + 2 * lane, m.float_inp.data()[size_t{tile} * m.g.lanes + lane]);
        else
          std::memcpy(to, m.inp.data() + size_t{tile} * m.g.lanes, m.g.lanes);
        break;
      default:
        std::memcpy(to, m.acc.data() + size_t{tile} * m.g.lanes, m.g.lanes * sizeof(int32_t));
    }
  }
  return LDS_SIM_OK;
}
