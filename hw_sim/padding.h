// The cycle in which a LOAD has written its padding.
//
// In:   the LOAD, the cycle of its start, the cycles in which its data occupy the write port.
// Out:  the first cycle in which no padding is left to write.
// Next: device_timing.cc: a LOAD ends when both its data and its padding are written.
//
// Padding writes one tile a cycle (pad_tiles_per_cycle), only in cycles without an arriving beat of this load: the rows above,
// then the sides of each row, then the rows below. A row without sides takes one cycle, whether the port is free or not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "constants.h"
#include "lds_isa.h"
#include "read_channel.h"

namespace lds::sim {

inline bool has_padding(const lds_insn_memory &i) { return (i.y_pad_0 | i.y_pad_1 | i.x_pad_0 | i.x_pad_1) != 0; }

// `services`: the times at which the read channel served the load's bursts, in order.
uint64_t padding_done(const lds_insn_memory &i, uint64_t start, const std::vector<Service> &services, const TimingConstants &c);

}  // namespace lds::sim
