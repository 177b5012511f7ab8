// The state of one device: scratchpads, registers, memory map, counters.
//
// In:   a Geometry.
// Out:  the state that the exec_*.cc functions read and write; there is one function for each kind of instruction.
// Next: run.cc executes a stream on it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "dram.h"
#include "geometry.h"
#include "kernels.h"
#include "lds_sim.h"
#include "poll.h"

namespace lds::sim {

// Zeroed memory, aligned to a cache line for the vector kernels.
template <typename T>
class AlignedBuffer {
 public:
  explicit AlignedBuffer(size_t size = 0) : size_(size), data_(allocate(size)) { clear(); }
  T *data() { return data_.get(); }
  const T *data() const { return data_.get(); }
  size_t size() const { return size_; }
  void clear() { std::fill_n(data_.get(), size_, T{}); }

 private:
  struct Free {
    void operator()(T *p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  static T *allocate(size_t size) { return static_cast<T *>(::operator new (sizeof(T) * (size + 1), std::align_val_t{64})); }

  size_t size_;
  std::unique_ptr<T, Free> data_;
};

// The registers that CONFIG sets.
struct Registers {
  int32_t load_pad = LDS_DEFAULT_PAD_VALUE, compute_pad = LDS_DEFAULT_PAD_VALUE;  // the low bits are used, as many as an element has
  RqRegisters rq = {LDS_DEFAULT_RQ_ZERO_POINT, LDS_DEFAULT_RQ_MIN, LDS_DEFAULT_RQ_MAX, LDS_DEFAULT_RQ_ROUNDING};
  RqRegisters store_rq = rq;
};

struct Machine {
  Machine(const Geometry &geometry, Poll *asked);

  Geometry g;
  Poll *poll;  // long operations report their cost here
  Dram dram;
  Region regions[LDS_MAX_REGIONS];
  Registers registers;

  std::vector<Uop> uop;
  AlignedBuffer<int8_t> inp;        // [tile][batch][block]
  AlignedBuffer<uint8_t> inp_side;  // [tile][batch][side_bytes]: the result of the kernels' prepare_inp
  AlignedBuffer<uint8_t> wgt;       // packed by the kernels
  AlignedBuffer<int32_t> acc;       // [tile][batch][block]; on a bfloat16 device the bits of float32
  AlignedBuffer<float> float_inp;   // [tile][batch][block], instead of inp
  AlignedBuffer<float> float_wgt;   // [tile][in][out], instead of wgt
  const Kernels *kernels;

  // Chooses the table of kernels (LDS_SIM_KERNELS_*) and repacks the weights; false when this host lacks it.
  bool use_kernels(int path);
  void reset_scratchpads();

  size_t inp_rows() const { return size_t{g.depth[LDS_MEMORY_INP]} * g.batch; }
  size_t wgt_tile_bytes() const { return kernels->tile_bytes(g.block); }
  // A weight tile in its DRAM layout, [out][in].
  void unpack_wgt(uint32_t tile, int8_t *out) const;
  void unpack_float_wgt(uint32_t tile, uint8_t *out) const;
};

// --- The instructions. One that throws Stop has changed nothing in DRAM, but may have changed part of the scratchpads. ---
void exec_load(Machine &m, const lds_insn_memory &insn);
// Its part for WGT_PLANES, where all that it touches is within bounds.
void load_planes(Machine &m, const lds_insn_memory &insn, uint64_t address);
void exec_store(Machine &m, const lds_insn &insn);
void exec_gemm(Machine &m, const lds_insn_gemm &insn);
void exec_depthwise(Machine &m, const lds_insn_depthwise &insn);
void exec_alu(Machine &m, const lds_insn_alu &insn);
void exec_config(Machine &m, const lds_insn_config &insn);

// The loops of an instruction. That its micro-ops lie in the scratchpad is checked here, but not the tiles that they name. No loop when a
// count is 0.
Loops loops_of(const Machine &m, const lds_insn_gemm &insn);
Loops loops_of(const Machine &m, const lds_insn_depthwise &insn);
Loops loops_of(const Machine &m, const lds_insn_alu &insn);

// The largest tile of each operand: the maximum over the micro-ops, plus the last turn of both loops. Only for steps() > 0.
struct Reach {
  uint64_t dst, src, wgt;
};
Reach reach_of(const Loops &loops);

// From the first tile of DEPTHWISE's window to the last.
inline uint32_t window_reach(const lds_insn_depthwise &i) { return (i.rows - 1) * i.row_stride + i.columns - 1; }

// Throws LDS_ERROR_SRAM_BOUNDS unless `last` < the depth of `memory`; `what` names the operand.
void check_sram(const Machine &m, uint32_t memory, uint64_t last, const char *what);

// The bus address of tile `dram_base` of a LOAD or STORE. Checks that all its rows lie in the region and below 2^64.
uint64_t dram_address(const Machine &m, const lds_insn_memory &insn, bool writes);

const char *memory_name(uint32_t memory);

}  // namespace lds::sim
