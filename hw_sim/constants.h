// The constants of the timing model, by name.
//
// In:   vta/devices/timing/NAME.json, one value at a time.
// Out:  a plain struct.
// Next: timing.cc. docs/timing.md states the meaning and the source of each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lds::sim {

// Each line names a constant, and gives its value of vta-rtl.
#define LDS_TIMING_CONSTANTS(X)      \
  X(nop_cycles, 2)                   \
  X(config_cycles, 2)                \
  X(gemm_overhead_cycles, 7)         \
  X(gemm_step_cycles, 1)             \
  X(alu_overhead_cycles, 7)          \
  X(alu_imm_step_cycles, 1)          \
  X(alu_tensor_step_cycles, 2)       \
  X(rq_step_cycles, 2)               \
  X(rq_operand_cycles, 0)            \
  X(rq_overhead_cycles, 7)           \
  X(rq_result_cycles, 0)             \
  X(load_request_cycles, 2)          \
  X(load_done_cycles, 4)             \
  X(load_uop_done_cycles, 3)         \
  X(pad_start_cycles, 2)             \
  X(pad_beat_cycles, 2)              \
  X(pad_tiles_per_cycle, 1)          \
  X(store_overhead_cycles, 1)        \
  X(store_burst_cycles, 3)           \
  X(store_tile_cycles, 3)            \
  X(store_rq_cycles, 14)             \
  X(store_inp_cycles, 2)             \
  X(depthwise_overhead_cycles, 8)    \
  X(read_request_interval_cycles, 2) \
  X(read_requests_in_flight, 16)     \
  X(read_latency_cycles, 17)         \
  X(read_burst_extra_cycles, 0)      \
  X(burst_max_beats, 256)            \
  X(burst_boundary_bytes, 2048)      \
  X(fetch_start_cycles, 3)           \
  X(fetch_batch_instructions, 128)   \
  X(fetch_deliver_cycles, 3)         \
  X(fetch_next_cycles, 2)            \
  X(fetch_splits, 0)                 \
  X(stage_queue_entries, 512)        \
  X(worst_burst_extra_cycles, 64) /* the most that read_burst_extra_cycles can be: for bounds, not for a run */

struct TimingConstants {
#define LDS_FIELD(name, value) int64_t name = value;
  LDS_TIMING_CONSTANTS(LDS_FIELD)
#undef LDS_FIELD
};

// A constant as a number of cycles.
inline uint64_t cycles_of(int64_t constant) { return static_cast<uint64_t>(constant); }

// False when no constant has this name.
bool set_constant(TimingConstants *constants, const char *name, int64_t value);

}  // namespace lds::sim
