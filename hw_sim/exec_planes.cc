// LOAD of WGT_PLANES: weights from bit planes.
//
// In:   a decoded instruction, whose tiles and words are within bounds.
// Out:  the weight tiles; those that the code does not have stay as they are.
// Next: exec_memory.cc calls it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "machine.h"

namespace lds::sim {
namespace {

constexpr uint32_t kRowsOfGroup = LDS_PLANE_WEIGHTS, kPlanesOfWord = 8 * LDS_PLANE_WORD_BYTES / LDS_PLANE_WEIGHTS;

uint64_t word_at(const std::vector<uint8_t> &code, size_t word) {
  uint64_t value = 0;
  for (size_t k = LDS_PLANE_WORD_BYTES; k-- != 0;) value = value << 8 | code[word * LDS_PLANE_WORD_BYTES + k];
  return value;
}

// A row of weights from its planes, the highest first.
void row_of(const std::vector<uint8_t> &code, size_t plane, uint32_t count, int8_t *weights) {
  uint8_t bits[LDS_PLANE_WEIGHTS] = {};
  for (uint32_t p = 0; p < count; ++p) {
    const uint32_t held = code[2 * (plane + p)] | uint32_t{code[2 * (plane + p) + 1]} << 8;
    for (uint32_t k = 0; k < LDS_PLANE_WEIGHTS; ++k) bits[k] = static_cast<uint8_t>(bits[k] * 2u | (held >> k & 1u));
  }
  const uint32_t sign = 1u << (count - 1);
  for (uint32_t k = 0; k < LDS_PLANE_WEIGHTS; ++k) weights[k] = static_cast<int8_t>((bits[k] ^ sign) - sign);
}

}  // namespace

void load_planes(Machine &m, const lds_insn_memory &i, uint64_t address) {
  std::vector<uint8_t> code(size_t{i.x_size} * LDS_PLANE_WORD_BYTES);
  m.poll->spend(Poll::kByte * code.size());
  m.dram.read(address, code.data(), code.size());
  const uint32_t rows_of_tile = m.g.block * m.g.block / LDS_PLANE_WEIGHTS;
  const size_t packed = m.wgt_tile_bytes(), planes = size_t{i.x_size} * kPlanesOfWord;
  std::vector<int8_t> tile(size_t{m.g.block} * m.g.block);
  uint32_t at = i.sram_base, row = 0;  // of WGT; of the tile
  const auto put = [&] { m.kernels->pack_wgt(m.g.block, tile.data(), m.wgt.data() + at * packed); };
  for (size_t head = 0; head < i.x_size;) {
    const uint64_t counts = word_at(code, head);
    size_t plane = (head + 1) * kPlanesOfWord;
    for (uint32_t r = 0; r < kRowsOfGroup; ++r) {
      const uint32_t count = lds_plane_count(counts, r);
      if (at == i.sram_base + i.y_size || plane + count > planes) {
        if (row != 0) put();
        return;
      }
      if (row == 0) m.unpack_wgt(at, tile.data());
      row_of(code, plane, count, tile.data() + size_t{row} * LDS_PLANE_WEIGHTS);
      plane += count;
      if (++row < rows_of_tile) continue;
      put();
      row = 0;
      ++at;
    }
    head = (plane + kPlanesOfWord - 1) / kPlanesOfWord;
  }
  if (row != 0) put();
}

}  // namespace lds::sim
