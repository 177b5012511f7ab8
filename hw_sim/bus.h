// The bus to DRAM: a channel of reads and a channel of writes, of one device or of several.
//
// In:   requests of reads, and STOREs, in the order of their cycles.
// Out:  the cycles in which beats arrive, and those for which a STORE waits.
// Next: device_timing.cc; timing.cc arbitrates between devices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "constants.h"
#include "read_channel.h"

namespace lds::sim {

struct Bus {
  Bus(const TimingConstants &c, bool at_worst, bool shared) : reads(c, at_worst), is_shared(shared) {}

  ReadChannel reads;
  const bool is_shared;

  // For how many cycles a STORE that is ready at `cycle` waits until those that started before it have written their last beats.
  uint64_t wait_to_write(uint64_t cycle, uint64_t beats) {
    const uint64_t wait = std::max(writes_free_, cycle) - cycle;
    writes_free_ = cycle + wait + beats;
    return wait;
  }

 private:
  uint64_t writes_free_ = 0;
};

}  // namespace lds::sim
