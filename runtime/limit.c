/* How many cycles a program can take: more than it does take, from its instructions alone.
 *
 * In:   a model, a program of VTA's instructions.
 * Out:  cycles; the time after which a device that shows no progress hangs.
 * Next: run.c, where lds_session_config.hang_ns is 0.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "geometry.h"
#include "loadstone.h"

/* Of an instruction besides its steps, of a row of DRAM, of a step: each several times what the simulator counts, its latency of 64
 * included. */
enum { INSN_CYCLES = 512, ROW_CYCLES = 256, STEP_CYCLES = 8, BUS_BYTES = 4 };

static uint32_t bits_of(uint64_t word, uint32_t first, uint32_t width) { return (uint32_t)(word >> first) & (((uint32_t)1 << width) - 1u); }

static uint64_t memory_cycles(const lds_hw_config *c, uint64_t low, uint64_t high) {
  enum { HIGH = 64 };
  const uint32_t memory = bits_of(low, LDS_BIT_MEMORY_MEMORY_ID, 3), bases = memory == LDS_MEMORY_WGT_4BIT ? LDS_GROUP_BASES : 1u;
  const uint64_t beats = ((uint64_t)bases << lds_log_tile_bytes(c, memory)) / BUS_BYTES + 1u;
  const uint32_t pads = bits_of(low, LDS_BIT_OPCODE, 3) == LDS_OPCODE_LOAD ? 4 : 0; /* bits; a STORE has none */
  const uint32_t own = memory == LDS_MEMORY_WGT_PLANES ? 1u : bits_of(high, LDS_BIT_MEMORY_Y_SIZE - HIGH, 16);
  const uint64_t rows =
      (uint64_t)own + bits_of(high, LDS_BIT_MEMORY_Y_PAD_0 - HIGH, pads) + bits_of(high, LDS_BIT_MEMORY_Y_PAD_1 - HIGH, pads);
  const uint64_t tiles = bits_of(high, LDS_BIT_MEMORY_X_SIZE - HIGH, 16) + bits_of(high, LDS_BIT_MEMORY_X_PAD_0 - HIGH, pads) +
                         bits_of(high, LDS_BIT_MEMORY_X_PAD_1 - HIGH, pads);
  return rows * (tiles * beats * STEP_CYCLES + ROW_CYCLES);
}

/* GEMM, ALU and DEPTHWISE have their loops at the same bits; behind the inner one of the last are its rows. */
static uint64_t loop_cycles(lds_isa_widths w, uint64_t low) {
  const uint64_t first = bits_of(low, LDS_BIT_GEMM_UOP_BGN, w.lu), end = bits_of(low, LDS_BIT_GEMM_UOP_END(w), w.lu + 1u);
  const uint32_t inner = bits_of(low, LDS_BIT_OPCODE, 3) == LDS_OPCODE_DEPTHWISE ? 10 : 14;
  const uint64_t turns = (uint64_t)bits_of(low, LDS_BIT_GEMM_ITER_OUT(w), 14) * bits_of(low, LDS_BIT_GEMM_ITER_IN(w), inner);
  return end > first ? (end - first) * turns * STEP_CYCLES : 0;
}

uint64_t lds_cycles_at_most(const lds_model *model, uint32_t device, const uint8_t *instructions, uint32_t count) {
  const lds_hw_config c = lds_config_of(model, device);
  const lds_isa_widths w = lds_isa_widths_of(&c);
  uint64_t cycles = 0;
  uint32_t k;
  for (k = 0; k < count && cycles < UINT64_MAX / 2u; ++k) {
    const uint8_t *p = instructions + (size_t)k * LDS_INSN_BYTES;
    const uint64_t low = lds_get_u64(p);
    const uint32_t opcode = bits_of(low, LDS_BIT_OPCODE, 3);
    cycles += INSN_CYCLES;
    if (opcode == LDS_OPCODE_LOAD || opcode == LDS_OPCODE_STORE) cycles += memory_cycles(&c, low, lds_get_u64(p + 8));
    if (opcode == LDS_OPCODE_GEMM || opcode == LDS_OPCODE_ALU || opcode == LDS_OPCODE_DEPTHWISE) cycles += loop_cycles(w, low);
  }
  return cycles;
}

uint64_t lds_most_ns(const lds_model *model, uint32_t device, const uint8_t *instructions, uint32_t count, uint64_t clock_hz) {
  const uint64_t slack = 16u, billion = 1000u * 1000u * 1000u, most = UINT64_MAX / slack / billion;
  const uint64_t cycles = lds_cycles_at_most(model, device, instructions, count), hz = clock_hz != 0 ? clock_hz : 16u * 1000u * 1000u;
  const uint64_t seconds = cycles / hz < most / 4u ? cycles / hz : most / 4u;
  return slack * (seconds * billion + cycles % hz * billion / hz);
}
