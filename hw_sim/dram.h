// DRAM as the device sees it: host memory at bus addresses, accessed through regions.
//
// In:   segments of host memory, region bases and limits.
// Out:  checked copies: every byte of an access lies in its region and in a segment, or the run stops.
// Next: exec_memory.cc copies rows of tiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lds::sim {

struct Segment {
  uint64_t base, size;
  uint8_t *host;
  bool read_only;
};

struct Region {
  uint64_t base = 0;
  uint64_t size = ~uint64_t{0} >> 1;
  bool read_only = false;
};

class Dram {
 public:
  // False when it overlaps another segment or wraps around. An empty segment is ignored.
  bool map(const Segment &segment);
  void unmap_all() { segments_.clear(); }

  // The host memory of [address, address + size) when it lies in one segment (with `writes`: in a writable one), else nullptr.
  uint8_t *span(uint64_t address, uint64_t size, bool writes) const;

  // These copy, across neighbouring segments where necessary. They throw Stop (LDS_ERROR_BUS) before they write a byte if part of the
  // range is not mapped.
  void read(uint64_t address, void *out, size_t size) const;
  void write(uint64_t address, const void *in, size_t size) const;

 private:
  template <typename Copy>
  void walk(uint64_t address, size_t size, bool writes, Copy copy) const;
  const Segment *find(uint64_t address) const;

  std::vector<Segment> segments_;  // by base
};

}  // namespace lds::sim
