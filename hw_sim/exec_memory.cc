// LOAD and STORE.
//
//   s = sram_base                                      LOAD: rows -y_pad_0 .. y_size + y_pad_1, tiles -x_pad_0 .. x_size + x_pad_1
//   sram[s++] = inside ? dram[dram_base + y * x_stride + x] : pad
//
//   STORE: the low bytes of ACC's lanes, what RQ makes of them, or whole lanes
//
// In:   a decoded instruction.
// Out:  the scratchpad (LOAD), DRAM or INP (STORE).
// Next: dram.cc finds the bytes of a region; exec_planes.cc has the LOAD of weights in bit planes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstring>

#include "bfloat16.h"
#include "machine.h"
#include "stop.h"

namespace lds::sim {
namespace {

// Writers of tiles, one for each memory: `copy` takes n tiles from the bytes of DRAM, `pad` writes n tiles of padding.
struct UopPad {
  Machine &m;
  void copy(size_t tile, const uint8_t *from, size_t n) const {
    const lds_isa_widths widths = m.g.widths;
    Uop *const to = m.uop.data() + tile;
    for (size_t k = 0; k < n; ++k) {
      const uint8_t *p = from + 4 * k;
      const uint32_t bits = p[0] | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24;
      const lds_uop u = lds_uop_decode(widths, bits);
      to[k] = {static_cast<uint16_t>(u.dst), static_cast<uint16_t>(u.src), static_cast<uint16_t>(u.wgt)};
    }
  }
  void pad(size_t tile, size_t n) const { std::fill_n(m.uop.begin() + static_cast<std::ptrdiff_t>(tile), n, Uop{}); }
};

struct InpPad {
  Machine &m;
  void copy(size_t tile, const uint8_t *from, size_t n) const {
    std::memcpy(m.inp.data() + tile * m.g.lanes, from, n * m.g.lanes);
    prepare(tile, n);
  }
  void pad(size_t tile, size_t n) const {
    std::memset(m.inp.data() + tile * m.g.lanes, m.registers.load_pad, n * m.g.lanes);
    prepare(tile, n);
  }
  void prepare(size_t tile, size_t n) const {
    const size_t side = m.g.batch * m.kernels->side_bytes(m.g.block);
    m.kernels->prepare_inp(m.g.block, m.inp.data() + tile * m.g.lanes, m.inp_side.data() + tile * side, n * m.g.batch);
  }
};

struct WgtPad {
  Machine &m;
  void copy(size_t tile, const uint8_t *from, size_t n) const {
    const size_t bytes = m.g.dram_tile_bytes[LDS_MEMORY_WGT], packed = m.wgt_tile_bytes();
    for (size_t k = 0; k < n; ++k)
      m.kernels->pack_wgt(m.g.block, reinterpret_cast<const int8_t *>(from + k * bytes), m.wgt.data() + (tile + k) * packed);
  }
  void pad(size_t tile, size_t n) const {
    const std::vector<uint8_t> zeros(m.g.dram_tile_bytes[LDS_MEMORY_WGT]);
    for (size_t k = 0; k < n; ++k) copy(tile + k, zeros.data(), 1);
  }
};

// A tile of weights of 4 bits. Of a size that is known, so that compilers make vectors of both loops.
template <uint32_t kBlock>
void expand(const uint8_t *halves, const uint8_t *multipliers, const uint8_t *minima, int8_t *weights) {
  constexpr uint32_t kWeights = kBlock * kBlock;
  std::array<uint8_t, kWeights> numbers;
  for (uint32_t k = 0; k < kWeights / 2; ++k) {
    numbers[2 * k] = halves[k] & 15u;
    numbers[2 * k + 1] = halves[k] >> 4u;
  }
  for (uint32_t o = 0; o < kBlock; ++o) {
    const uint16_t multiplier = multipliers[o], minimum = minima[o];
    for (uint32_t k = o * kBlock; k < (o + 1) * kBlock; ++k) {
      const auto product = static_cast<uint16_t>(numbers[k] * multiplier + 4u);  // 15 * 255 + 4 at most
      weights[k] = static_cast<int8_t>(static_cast<uint16_t>(minimum + (product >> 3u)));
    }
  }
}

// Of the blocks that divide a group.
void expand_tile(uint32_t block, const uint8_t *halves, const uint8_t *multipliers, const uint8_t *minima, int8_t *weights) {
  switch (block) {
    case 4:
      return expand<4>(halves, multipliers, minima, weights);
    case 8:
      return expand<8>(halves, multipliers, minima, weights);
    case 16:
      return expand<16>(halves, multipliers, minima, weights);
    default:
      return expand<32>(halves, multipliers, minima, weights);
  }
}

// Groups of weights of 4 bits: multipliers, minima, then the numbers, two in a byte. `tile` is the first of WGT; n counts groups.
struct Wgt4Pad {
  Machine &m;
  void copy(size_t tile, const uint8_t *from, size_t n) const {
    const uint32_t block = m.g.block, tile_weights = block * block;
    const size_t bytes = m.g.dram_tile_bytes[LDS_MEMORY_WGT_4BIT], packed = m.wgt_tile_bytes();
    std::vector<int8_t> weights(tile_weights);
    for (; n != 0; --n, from += bytes) {
      const uint8_t *multipliers = from, *minima = from + block, *numbers = from + 2 * size_t{block};
      for (uint32_t t = 0; t < m.g.filled_tiles[LDS_MEMORY_WGT_4BIT]; ++t, ++tile, numbers += tile_weights / 2) {
        expand_tile(block, numbers, multipliers, minima, weights.data());
        m.kernels->pack_wgt(block, weights.data(), m.wgt.data() + tile * packed);
      }
    }
  }
  void pad(size_t, size_t) const {}  // it has none
};

struct AccPad {
  Machine &m;
  void copy(size_t tile, const uint8_t *from, size_t n) const {  // little-endian int32, like the host's
    std::memcpy(m.acc.data() + tile * m.g.lanes, from, n * m.g.lanes * sizeof(int32_t));
  }
  void pad(size_t tile, size_t n) const { std::fill_n(m.acc.data() + tile * m.g.lanes, n * m.g.lanes, 0); }
};

struct Acc8Pad {
  Machine &m;
  void copy(size_t tile, const uint8_t *from, size_t n) const {
    int32_t *out = m.acc.data() + tile * m.g.lanes;
    for (size_t k = 0; k < n * m.g.lanes; ++k) out[k] = static_cast<int8_t>(from[k]);
  }
  void pad(size_t tile, size_t n) const {
    std::fill_n(m.acc.data() + tile * m.g.lanes, n * m.g.lanes, int32_t{static_cast<int8_t>(m.registers.compute_pad)});
  }
};

// The same for bfloat16 elements, of two bytes each, which are kept as float32.
uint16_t element(const uint8_t *from, size_t k) { return static_cast<uint16_t>(from[2 * k] | from[2 * k + 1] << 8); }

struct FloatInpPad {
  Machine &m;
  void copy(size_t tile, const uint8_t *from, size_t n) const {
    float *out = m.float_inp.data() + tile * m.g.lanes;
    for (size_t k = 0; k < n * m.g.lanes; ++k) out[k] = widened(element(from, k));
  }
  void pad(size_t tile, size_t n) const {
    std::fill_n(m.float_inp.data() + tile * m.g.lanes, n * m.g.lanes, widened(static_cast<uint16_t>(m.registers.load_pad)));
  }
};

struct FloatWgtPad {
  Machine &m;
  void copy(size_t tile, const uint8_t *from, size_t n) const {
    const size_t block = m.g.block;
    float *packed = m.float_wgt.data() + tile * block * block;
    for (size_t t = 0; t < n; ++t, packed += block * block, from += 2 * block * block)
      for (size_t o = 0; o < block; ++o)
        for (size_t k = 0; k < block; ++k) packed[k * block + o] = widened(element(from, o * block + k));
  }
  void pad(size_t tile, size_t n) const {
    const size_t elements = size_t{m.g.block} * m.g.block;
    std::fill_n(m.float_wgt.data() + tile * elements, n * elements, 0.0f);
  }
};

struct FloatAcc8Pad {
  Machine &m;
  void copy(size_t tile, const uint8_t *from, size_t n) const {
    int32_t *out = m.acc.data() + tile * m.g.lanes;
    for (size_t k = 0; k < n * m.g.lanes; ++k) out[k] = static_cast<int32_t>(widened_bits(element(from, k)));
  }
  void pad(size_t tile, size_t n) const {
    const uint32_t bits = widened_bits(static_cast<uint16_t>(m.registers.compute_pad));
    std::fill_n(m.acc.data() + tile * m.g.lanes, n * m.g.lanes, static_cast<int32_t>(bits));
  }
};

// Calls work(first, n) for consecutive parts of n tiles, because WGT can have half a gigabyte.
template <typename Work>
void in_parts(const Machine &m, size_t n, uint32_t tile_bytes, Work work) {
  const size_t most = static_cast<size_t>(std::max<uint64_t>(1, Poll::kPart / (Poll::kByte * tile_bytes)));
  for (size_t done = 0; done < n; done += most) {
    const size_t part = std::min(most, n - done);
    work(done, part);
    m.poll->spend(Poll::kByte * part * tile_bytes);
  }
}

// Copies n tiles from DRAM, directly from host memory where they lie in one segment.
template <typename Pad>
void copy_row(const Machine &m, const Pad &pad, size_t tile, uint64_t address, uint32_t n, uint32_t memory) {
  const uint32_t tile_bytes = m.g.dram_tile_bytes[memory], fills = m.g.filled_tiles[memory];
  const uint64_t size = uint64_t{n} * tile_bytes;
  if (const uint8_t *host = m.dram.span(address, size, false))
    return in_parts(m, n, tile_bytes, [&](size_t first, size_t part) { pad.copy(tile + first * fills, host + first * tile_bytes, part); });
  std::vector<uint8_t> row;
  in_parts(m, n, tile_bytes, [&](size_t first, size_t part) {
    row.resize(part * tile_bytes);
    m.dram.read(address + first * tile_bytes, row.data(), row.size());
    pad.copy(tile + first * fills, row.data(), part);
  });
}

template <typename Pad>
void load_with(const Machine &m, const Pad &pad, const lds_insn_memory &i, uint64_t address) {
  const uint32_t tile_bytes = m.g.dram_tile_bytes[i.memory_id], fills = m.g.filled_tiles[i.memory_id];
  const size_t width = size_t{i.x_pad_0} + i.x_size + i.x_pad_1;
  const uint64_t stride = uint64_t{i.x_stride} * tile_bytes;
  const auto fill = [&](size_t tile, size_t n) {
    in_parts(m, n, tile_bytes, [&](size_t first, size_t part) { pad.pad(tile + first, part); });
  };
  size_t s = i.sram_base;
  const uint64_t rows = i.y_size, extent = rows == 0 ? 0 : (rows - 1) * stride + uint64_t{i.x_size} * tile_bytes;
  const uint64_t cost = Poll::kByte * tile_bytes * width * (i.y_pad_0 + rows + i.y_pad_1);
  const uint8_t *host = rows > 1 && cost <= Poll::kPart ? m.dram.span(address, extent, false) : nullptr;
  if (host != nullptr) {  // small, and within one segment
    m.poll->spend(cost);
    const auto fill_some = [&](size_t n) {
      if (n != 0) pad.pad(s, n);
      s += n;
    };
    fill_some(i.y_pad_0 * width);
    for (uint32_t y = 0; y < i.y_size; ++y, host += stride) {
      fill_some(i.x_pad_0);
      pad.copy(s, host, i.x_size);
      s += size_t{i.x_size} * fills;
      fill_some(i.x_pad_1);
    }
    return fill_some(i.y_pad_1 * width);
  }
  fill(s, i.y_pad_0 * width);
  s += i.y_pad_0 * width;
  if (width == i.x_size && i.x_stride == i.x_size) {  // the tiles are contiguous
    copy_row(m, pad, s, address, i.x_size * i.y_size, i.memory_id);
    s += size_t{i.x_size} * i.y_size * fills;
  } else {
    for (uint32_t y = 0; y < i.y_size; ++y, s += width * fills) {
      fill(s, i.x_pad_0);
      copy_row(m, pad, s + i.x_pad_0, address + y * stride, i.x_size, i.memory_id);
      fill(s + i.x_pad_0 + i.x_size, i.x_pad_1);
    }
  }
  fill(s, i.y_pad_1 * width);
}

void store_floats(const int32_t *acc, size_t lanes, uint8_t *out) {
  for (size_t k = 0; k < lanes; ++k) {
    const uint16_t bits = nearest_bfloat16(static_cast<uint32_t>(acc[k]));
    out[2 * k] = static_cast<uint8_t>(bits & 0xffu);
    out[2 * k + 1] = static_cast<uint8_t>(bits >> 8);
  }
}

// Requantizes a row of n accumulator tiles by three operand tiles: copies of both, the operands in front, of which the row remains.
class RequantizedRow {
 public:
  RequantizedRow(const Machine &m, uint32_t n) : m_(m), lanes_(m.g.lanes), tiles_((size_t{n} + kOperands) * m.g.lanes) {
    row_.uops = &kUop;
    row_.count = row_.iter_out = row_.dst_in = 1;
    row_.iter_in = n;
  }

  const int32_t *of(const int32_t *acc, uint32_t operands) {
    m_.poll->spend(Poll::kLane * lanes_ * row_.iter_in);
    std::copy_n(m_.acc.data() + operands * lanes_, kOperands * lanes_, tiles_.data());
    std::copy_n(acc, row_.iter_in * lanes_, row());
    m_.kernels->rq(row_, m_.g.lanes, tiles_.data(), m_.registers.store_rq);
    return row();
  }

 private:
  static constexpr size_t kOperands = 3;
  static constexpr Uop kUop = {kOperands, 0, 0};

  int32_t *row() { return tiles_.data() + kOperands * lanes_; }

  const Machine &m_;
  size_t lanes_;
  AlignedBuffer<int32_t> tiles_;
  Loops row_{};
};

}  // namespace

void check_sram(const Machine &m, uint32_t memory, uint64_t last, const char *what) {
  if (last < m.g.depth[memory]) return;
  throw Stop{LDS_ERROR_SRAM_BOUNDS, 0,
             format("%s reaches tile %" PRIu64 " of %s, which has %u", what, last, memory_name(memory), m.g.depth[memory])};
}

uint64_t dram_address(const Machine &m, const lds_insn_memory &i, bool writes) {
  const uint32_t tile_bytes = m.g.dram_tile_bytes[i.memory_id];
  const Region &region = m.regions[i.region];
  const uint64_t offset = uint64_t{i.dram_base} * m.g.dram_base_bytes[i.memory_id];
  const uint64_t rows = i.y_size == 0 ? 0 : i.y_size - 1;
  const uint64_t size = i.y_size == 0 ? 0 : (rows * i.x_stride + i.x_size) * tile_bytes;  // below 2^48
  const uint64_t address = region.base + offset;
  if (address < offset || address > ~uint64_t{0} - size)
    throw Stop{LDS_ERROR_BUS, address, format("tile %u at region base 0x%" PRIx64 " leaves the 64-bit bus", i.dram_base, region.base)};
  if (!m.g.has(LDS_CAP_REGIONS)) return address;
  if (offset + size > region.size)
    throw Stop{LDS_ERROR_DRAM_BOUNDS, address,
               format("bytes %" PRIu64 " to %" PRIu64 " of region %u, which has %" PRIu64, offset, offset + size, i.region, region.size)};
  if (writes && region.read_only) throw Stop{LDS_ERROR_DRAM_BOUNDS, address, format("region %u is read-only", i.region)};
  return address;
}

void exec_load(Machine &m, const lds_insn_memory &i) {
  if (i.x_size == 0) return;
  const uint64_t rows = uint64_t{i.y_pad_0} + i.y_size + i.y_pad_1;
  if (rows == 0) return;
  check_sram(m, i.memory_id, i.sram_base + filled_by(m.g, i) - 1, "LOAD");
  const uint64_t address = dram_address(m, i, false);
  switch (i.memory_id) {
    case LDS_MEMORY_UOP:
      return load_with(m, UopPad{m}, i, address);
    case LDS_MEMORY_INP:
      return m.g.is_float ? load_with(m, FloatInpPad{m}, i, address) : load_with(m, InpPad{m}, i, address);
    case LDS_MEMORY_WGT:
      return m.g.is_float ? load_with(m, FloatWgtPad{m}, i, address) : load_with(m, WgtPad{m}, i, address);
    case LDS_MEMORY_WGT_4BIT:
      return load_with(m, Wgt4Pad{m}, i, address);
    case LDS_MEMORY_WGT_PLANES:
      return load_planes(m, i, address);
    case LDS_MEMORY_ACC:
      return load_with(m, AccPad{m}, i, address);
    default:
      return m.g.is_float ? load_with(m, FloatAcc8Pad{m}, i, address) : load_with(m, Acc8Pad{m}, i, address);
  }
}

void exec_store(Machine &m, const lds_insn &insn) {
  const lds_insn_memory &i = insn.u.memory;  // the fields that LOAD and STORE begin with
  const lds_insn_store &store = insn.u.store;
  if (i.x_size == 0 || i.y_size == 0) return;
  check_sram(m, LDS_MEMORY_OUT, i.sram_base + uint64_t{i.x_size} * i.y_size - 1, "STORE");
  const uint32_t moves = store.operand_step != 0 ? 3 : 0;
  if (store.requantize != 0) check_sram(m, LDS_MEMORY_ACC, store.operands + uint64_t{moves} * (i.y_size - 1) + 2, "STORE operands");
  const bool to_inp = i.memory_id == LDS_MEMORY_INP;  // in place of DRAM
  if (to_inp) check_sram(m, LDS_MEMORY_INP, i.dram_base + uint64_t{i.x_stride} * (i.y_size - 1) + i.x_size - 1, "STORE to INP");
  const uint64_t address = to_inp ? 0 : dram_address(m, i, true);
  const bool whole = i.memory_id == LDS_MEMORY_ACC;  // all bits of a lane
  const uint32_t tile_bytes = m.g.dram_tile_bytes[i.memory_id];
  const uint64_t stride = uint64_t{i.x_stride} * tile_bytes;
  const size_t row_lanes = size_t{i.x_size} * m.g.lanes, row_bytes = size_t{i.x_size} * tile_bytes;
  const int32_t *acc = m.acc.data() + size_t{i.sram_base} * m.g.lanes;
  std::vector<uint8_t> row;
  RequantizedRow requantized(m, store.requantize != 0 ? i.x_size : 0);
  const auto span = [&](uint64_t first, uint64_t size) { return to_inp ? nullptr : m.dram.span(first, size, true); };
  uint8_t *const all = span(address, (i.y_size - 1) * stride + row_bytes);
  for (uint32_t y = 0; y < i.y_size; ++y, acc += row_lanes) {
    uint8_t *host = all != nullptr ? all + y * stride : span(address + y * stride, row_bytes);
    if (host == nullptr) row.resize(row_bytes);
    uint8_t *out = host != nullptr ? host : row.data();
    if (whole)
      std::memcpy(out, acc, row_bytes);  // little-endian int32, like the host's
    else if (m.g.is_float)
      store_floats(acc, row_lanes, out);
    else
      m.kernels->take_bytes(store.requantize != 0 ? requantized.of(acc, store.operands + moves * y) : acc, row_lanes, out);
    if (to_inp)
      InpPad{m}.copy(i.dram_base + size_t{y} * i.x_stride, out, i.x_size);
    else if (host == nullptr)
      m.dram.write(address + y * stride, row.data(), row_bytes);
  }
}

}  // namespace lds::sim
