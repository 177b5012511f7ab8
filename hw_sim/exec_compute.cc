// GEMM, DEPTHWISE, ALU and CONFIG.
//
//   for i in 0 .. iter_out:  for j in 0 .. iter_in:  for u in uop_bgn .. uop_end:
//     d = uop[u].dst + i * dst_out + j * dst_in;  s, w likewise
//     GEMM: acc[d] (+)= inp[s] * wgt[w]      ALU: acc[d] = op(acc[d], acc[s] or imm)
//     DEPTHWISE: acc[d][o] (+)= sum of inp[s + r * row_stride + c][o] * the weight of tap (r, c) in wgt[w][o]
//
// In:   a decoded instruction.
// Out:  accumulator tiles; registers (CONFIG).
// Next: the loops run in the kernels, after one bounds check for the whole instruction; long loops (an instruction can have 2^41 steps)
//       run in parts.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "machine.h"
#include "stop.h"

namespace lds::sim {
namespace {

template <typename Insn>
Loops loops_without_wgt(const Machine &m, const Insn &i) {
  Loops loops{};
  if (i.uop_end <= i.uop_bgn || i.iter_out == 0 || i.iter_in == 0) return loops;
  check_sram(m, LDS_MEMORY_UOP, i.uop_end - 1u, "uop_end");
  loops.uops = m.uop.data() + i.uop_bgn;
  loops.count = i.uop_end - i.uop_bgn;
  loops.iter_out = i.iter_out;
  loops.iter_in = i.iter_in;
  loops.dst_out = i.dst_out;
  loops.dst_in = i.dst_in;
  loops.src_out = i.src_out;
  loops.src_in = i.src_in;
  return loops;
}

// Calls run(part) for consecutive parts of the loops, each with at most Poll::kPart of work. Because kernels always start at turn 0, the
// indices of the micro-ops are increased by those at which the part begins. An index stays below its scratchpad's depth, which 16 bits
// hold; that of an operand that is not read may wrap.
template <typename Run>
void in_parts(const Machine &m, const Loops &loops, uint64_t step_cost, Run run) {
  step_cost = std::max(step_cost, Poll::kStep);
  m.poll->spend(std::min(loops.steps() * step_cost, Poll::kPart));
  if (loops.steps() * step_cost <= Poll::kPart) return run(loops);
  const uint64_t steps = std::max<uint64_t>(1, Poll::kPart / step_cost), count = loops.count, ins = loops.iter_in;
  const uint64_t some_uops = std::min(count, steps);
  const uint64_t some_ins = some_uops < count ? 1 : std::min(ins, steps / count);
  const uint64_t some_outs = some_uops < count || some_ins < ins ? 1 : std::min<uint64_t>(loops.iter_out, steps / (count * ins));
  std::vector<Uop> moved(static_cast<size_t>(some_uops));
  Loops part = loops;
  part.uops = moved.data();
  for (uint64_t i = 0; i < loops.iter_out; i += some_outs)
    for (uint64_t j = 0; j < ins; j += some_ins)
      for (uint64_t u = 0; u < count; u += some_uops) {
        part.iter_out = static_cast<uint32_t>(std::min(some_outs, loops.iter_out - i));
        part.iter_in = static_cast<uint32_t>(std::min(some_ins, ins - j));
        part.count = static_cast<uint32_t>(std::min(some_uops, count - u));
        const auto moved_on = [i, j](uint32_t index, uint32_t out, uint32_t in) { return static_cast<uint16_t>(index + i * out + j * in); };
        for (uint32_t k = 0; k < part.count; ++k) {
          const Uop &uop = loops.uops[u + k];
          moved[k] = {moved_on(uop.dst, loops.dst_out, loops.dst_in), moved_on(uop.src, loops.src_out, loops.src_in),
                      moved_on(uop.wgt, loops.wgt_out, loops.wgt_in)};
        }
        run(part);
        m.poll->spend(part.steps() * step_cost);
      }
}

}  // namespace

// The taps of a window: their distance from its first tile, where their weights are in those of a lane, and what their products count.
class WindowSums {
 public:
  WindowSums(const Machine &m, const lds_insn_depthwise &i) : wgt_(m.g.dram_tile_bytes[LDS_MEMORY_WGT]), sums_(m.g.lanes) {
    for (uint32_t r = 0; r < i.rows; ++r)
      for (uint32_t c = 0; c < i.columns; ++c)
        taps_.push_back({r * i.row_stride + c, LDS_WINDOW_PITCH * (lds_window_rows(m.g.block) - i.rows + r) + c, 1});
    if (i.wide != 0) taps_.push_back({(i.rows - 1) * i.row_stride, LDS_WINDOW_PITCH * lds_window_rows(m.g.block) - 1, LDS_WIDE_FACTOR});
  }

  void multiply(Machine &m, const Loops &l, bool overwrite) {
    for (uint32_t i = 0; i < l.iter_out; ++i)
      for (uint32_t j = 0; j < l.iter_in; ++j)
        for (uint32_t u = 0; u < l.count; ++u) {
          const Uop &uop = l.uops[u];
          unpack(m, uop.wgt + i * l.wgt_out + j * l.wgt_in);
          step(m, uop.dst + i * l.dst_out + j * l.dst_in, uop.src + i * l.src_out + j * l.src_in, overwrite);
        }
  }

 private:
  struct Tap {
    uint32_t tile, weight;
    int32_t factor;
  };

  void unpack(const Machine &m, uint32_t tile) {
    if (tile != unpacked_) m.unpack_wgt(tile, wgt_.data());
    unpacked_ = tile;
  }

  void step(Machine &m, uint32_t dst, uint32_t src, bool overwrite) {
    const uint32_t lanes = m.g.lanes, block = m.g.block;
    std::fill(sums_.begin(), sums_.end(), 0);
    for (const Tap &tap : taps_) {
      const int8_t *inp = m.inp.data() + size_t{src + tap.tile} * lanes;
      for (uint32_t n = 0; n < lanes; ++n) sums_[n] += inp[n] * wgt_[n % block * block + tap.weight] * tap.factor;
    }
    int32_t *acc = m.acc.data() + size_t{dst} * lanes;
    for (uint32_t n = 0; n < lanes; ++n)  // sums of accumulators wrap
      acc[n] = static_cast<int32_t>(static_cast<uint32_t>(sums_[n]) + (overwrite ? 0 : static_cast<uint32_t>(acc[n])));
  }

  std::vector<int8_t> wgt_;  // [out][in] of one tile
  std::vector<int32_t> sums_;
  std::vector<Tap> taps_;
  uint32_t unpacked_ = ~0u;
};

Loops loops_of(const Machine &m, const lds_insn_gemm &i) {
  Loops loops = loops_without_wgt(m, i);
  loops.wgt_out = i.wgt_out;
  loops.wgt_in = i.wgt_in;
  return loops;
}

Loops loops_of(const Machine &m, const lds_insn_depthwise &i) {
  Loops loops = loops_without_wgt(m, i);
  loops.wgt_out = i.wgt_out;
  return loops;
}

Loops loops_of(const Machine &m, const lds_insn_alu &i) { return loops_without_wgt(m, i); }

Reach reach_of(const Loops &l) {
  uint32_t dst = 0, src = 0, wgt = 0;
  for (uint32_t u = 0; u < l.count; ++u) {
    dst = std::max<uint32_t>(dst, l.uops[u].dst);
    src = std::max<uint32_t>(src, l.uops[u].src);
    wgt = std::max<uint32_t>(wgt, l.uops[u].wgt);
  }
  const uint64_t out = l.iter_out - 1u, in = l.iter_in - 1u;
  return {dst + out * l.dst_out + in * l.dst_in, src + out * l.src_out + in * l.src_in, wgt + out * l.wgt_out + in * l.wgt_in};
}

void exec_gemm(Machine &m, const lds_insn_gemm &i) {
  const Loops loops = loops_of(m, i);
  if (loops.steps() == 0) return;
  const Reach reach = reach_of(loops);
  check_sram(m, LDS_MEMORY_ACC, reach.dst, "GEMM dst");
  if (i.reset) return in_parts(m, loops, m.g.lanes, [&](const Loops &part) { m.kernels->gemm_reset(part, m.g.lanes, m.acc.data()); });
  check_sram(m, LDS_MEMORY_INP, reach.src, "GEMM src");
  check_sram(m, LDS_MEMORY_WGT, reach.wgt, "GEMM wgt");
  if (m.g.is_float) {
    const FloatOperands floats = {m.g.batch, m.g.block, m.acc.data(), m.float_inp.data(), m.float_wgt.data()};
    return in_parts(m, loops, uint64_t{m.g.lanes} * m.g.block,
                    [&](const Loops &part) { m.kernels->float_gemm(part, floats, i.overwrite != 0); });
  }
  const GemmOperands operands = {m.g.batch, m.g.block, m.acc.data(), m.inp.data(), m.inp_side.data(), m.wgt.data()};
  in_parts(m, loops, uint64_t{m.g.lanes} * m.g.block, [&](const Loops &part) { m.kernels->gemm(part, operands, i.overwrite != 0); });
}

void exec_depthwise(Machine &m, const lds_insn_depthwise &i) {
  const Loops loops = loops_of(m, i);
  if (loops.steps() == 0) return;
  const Reach reach = reach_of(loops);
  check_sram(m, LDS_MEMORY_ACC, reach.dst, "DEPTHWISE dst");
  check_sram(m, LDS_MEMORY_INP, reach.src + window_reach(i), "DEPTHWISE src");
  check_sram(m, LDS_MEMORY_WGT, reach.wgt, "DEPTHWISE wgt");
  WindowSums windows(m, i);
  in_parts(m, loops, uint64_t{m.g.lanes} * (i.rows * i.columns + i.wide),
           [&](const Loops &part) { windows.multiply(m, part, i.overwrite != 0); });
}

void exec_alu(Machine &m, const lds_insn_alu &i) {
  const Loops loops = loops_of(m, i);
  if (loops.steps() == 0) return;
  const Reach reach = reach_of(loops);
  check_sram(m, LDS_MEMORY_ACC, reach.dst, "ALU dst");
  const uint64_t cost = Poll::kLane * m.g.lanes;
  if (i.alu_op == LDS_ALU_RQ) {
    check_sram(m, LDS_MEMORY_ACC, reach.src + 2, "RQ operands");
    return in_parts(m, loops, cost, [&](const Loops &part) { m.kernels->rq(part, m.g.lanes, m.acc.data(), m.registers.rq); });
  }
  if (!i.use_imm) check_sram(m, LDS_MEMORY_ACC, reach.src, "ALU src");
  if (m.g.is_float) {
    const int32_t bits = static_cast<int32_t>(static_cast<uint32_t>(i.imm) << 16);  // the bfloat16 as a float32
    return in_parts(m, loops, cost,
                    [&](const Loops &part) { m.kernels->float_alu(part, m.g.lanes, m.acc.data(), i.alu_op, i.use_imm != 0, bits); });
  }
  in_parts(m, loops, cost, [&](const Loops &part) { m.kernels->alu(part, m.g.lanes, m.acc.data(), i.alu_op, i.use_imm != 0, i.imm); });
}

void exec_config(Machine &m, const lds_insn_config &i) {
  RqRegisters &rq = i.stage == LDS_STAGE_STORE ? m.registers.store_rq : m.registers.rq;
  switch (i.register_id) {
    case LDS_CONFIG_PAD_VALUE:
      (i.stage == LDS_STAGE_LOAD ? m.registers.load_pad : m.registers.compute_pad) = i.value;
      return;
    case LDS_CONFIG_RQ_ZERO_POINT:
      rq.zero_point = i.value;
      return;
    case LDS_CONFIG_RQ_MIN:
      rq.min = i.value;
      return;
    case LDS_CONFIG_RQ_MAX:
      rq.max = i.value;
      return;
    default:
      rq.rounding = static_cast<uint32_t>(i.value);
      return;
  }
}

}  // namespace lds::sim
