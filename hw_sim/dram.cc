// Implementation of dram.h.
// SPDX-License-Identifier: Apache-2.0
#include "dram.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "lds_isa.h"
#include "stop.h"

namespace lds::sim {

bool Dram::map(const Segment &segment) {
  if (segment.size == 0) return true;
  if (segment.base > ~uint64_t{0} - (segment.size - 1)) return false;
  const auto after = std::find_if(segments_.begin(), segments_.end(), [&](const Segment &s) { return s.base > segment.base; });
  if (after != segments_.end() && after->base - segment.base < segment.size) return false;
  if (after != segments_.begin() && segment.base - (after - 1)->base < (after - 1)->size) return false;
  segments_.insert(after, segment);
  return true;
}

const Segment *Dram::find(uint64_t address) const {
  for (const Segment &s : segments_)  // there are few: a model has at most 8 regions and a stream
    if (address >= s.base && address - s.base < s.size) return &s;
  return nullptr;
}

uint8_t *Dram::span(uint64_t address, uint64_t size, bool writes) const {
  const Segment *s = find(address);
  if (s == nullptr || size > s->size - (address - s->base) || (writes && s->read_only)) return nullptr;
  return s->host + (address - s->base);
}

template <typename Copy>
void Dram::walk(uint64_t address, size_t size, bool writes, Copy copy) const {
  size_t done = 0;
  while (done < size) {
    const uint64_t at = address + done;
    const Segment *s = at < address ? nullptr : find(at);
    if (s == nullptr) throw Stop{LDS_ERROR_BUS, at, format("no memory is mapped at bus address 0x%" PRIx64, at)};
    if (writes && s->read_only) throw Stop{LDS_ERROR_DRAM_BOUNDS, at, format("memory at bus address 0x%" PRIx64 " is read-only", at)};
    const size_t here = static_cast<size_t>(std::min<uint64_t>(size - done, s->size - (at - s->base)));
    copy(s->host + (at - s->base), done, here);
    done += here;
  }
}

void Dram::read(uint64_t address, void *out, size_t size) const {
  walk(address, size, false, [out](const uint8_t *host, size_t at, size_t n) { std::memcpy(static_cast<uint8_t *>(out) + at, host, n); });
}

void Dram::write(uint64_t address, const void *in, size_t size) const {
  walk(address, size, true, [](uint8_t *, size_t, size_t) {});
  walk(address, size, true, [in](uint8_t *host, size_t at, size_t n) { std::memcpy(host, static_cast<const uint8_t *>(in) + at, n); });
}

}  // namespace lds::sim
