// The bursts on the bus of a LOAD, a STORE or a fetch.
//
// In:   rows of bytes in DRAM; the width of the bus; the length of the longest burst, and the boundary that none crosses.
// Out:  one burst after another, in beats.
// Next: readers.h sends those of reads to the read channel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "constants.h"

namespace lds::sim {

// All are powers of two: any other constant is rounded down to one.
struct BusShape {
  uint32_t beat_log2;       // bytes of a beat
  uint64_t boundary_bytes;  // no burst crosses a multiple of it
  uint64_t max_bytes;       // of one burst

  BusShape(uint32_t bus_bits, const TimingConstants &c)
      : beat_log2(log2_of(bus_bits / 8)),
        boundary_bytes(std::max(uint64_t{1} << beat_log2, uint64_t{1} << log2_of(c.burst_boundary_bytes))),
        max_bytes(uint64_t{1} << (beat_log2 + log2_of(c.burst_max_beats))) {}

 private:
  static uint32_t log2_of(int64_t value) {
    uint32_t log2 = 0;
    while (log2 < 40 && value >> (log2 + 1) != 0) ++log2;
    return log2;
  }
};

// Every row starts new bursts; a row splits at boundaries and at the longest burst; partial beats count as whole ones.
class Bursts {
 public:
  Bursts(const BusShape &bus, uint64_t address, uint64_t row_bytes, uint64_t rows, uint64_t stride_bytes)
      : bus_(bus), row_(address), row_bytes_(row_bytes), rows_(row_bytes == 0 ? 0 : rows), stride_(stride_bytes) {
    begin_row();
  }

  bool done() const { return rows_ == 0; }

  // Beats of the next burst; only when not done.
  uint64_t next() {
    const uint64_t room = std::min(bus_.boundary_bytes - (at_ & (bus_.boundary_bytes - 1)), bus_.max_bytes);
    const uint64_t size = std::min(end_ - at_, room);
    at_ += size;
    if (at_ == end_ && --rows_ != 0) {
      row_ += stride_;
      begin_row();
    }
    return size >> bus_.beat_log2;
  }

 private:
  void begin_row() {
    const uint64_t beat = uint64_t{1} << bus_.beat_log2;
    at_ = row_ & ~(beat - 1);
    end_ = (row_ + row_bytes_ + beat - 1) & ~(beat - 1);
  }

  BusShape bus_;
  uint64_t row_, row_bytes_, rows_, stride_;
  uint64_t at_ = 0, end_ = 0;
};

}  // namespace lds::sim
