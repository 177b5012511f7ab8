// Implementation of known.h.
// SPDX-License-Identifier: Apache-2.0
#include "known.h"

#include <algorithm>

namespace lds::sim {
namespace {

bool are_same(const Region &a, const Region &b) { return a.base == b.base && a.size == b.size && a.read_only == b.read_only; }

// The fields that device_timing.cc fills.
void copy_times(const lds_sim_result &from, lds_sim_result *to) {
  to->cycles = from.cycles;
  std::copy_n(from.busy_cycles, 3, to->busy_cycles);
  std::copy_n(from.stall_token_cycles, 3, to->stall_token_cycles);
  std::copy_n(from.stall_fetch_cycles, 3, to->stall_fetch_cycles);
  std::copy_n(from.stall_dram_cycles, 3, to->stall_dram_cycles);
  to->read_beats = from.read_beats;
  to->write_beats = from.write_beats;
  to->read_bursts = from.read_bursts;
  to->write_bursts = from.write_bursts;
}

}  // namespace

bool Known::recall(const TimingInput &in, lds_sim_result *result) const {
  if (!timed_ || cycle_limit_ != in.cycle_limit || !std::equal(done_, done_ + 3, in.done)) return false;
  if (!std::equal(regions_, regions_ + LDS_MAX_REGIONS, in.regions, are_same)) return false;
  if (slow_step_cycles_ != in.slow_step_cycles) return false;
  copy_times(result_, result);
  return true;
}

void Known::remember(const TimingInput &in, const lds_sim_result &result) {
  cycle_limit_ = in.cycle_limit;
  std::copy_n(in.regions, LDS_MAX_REGIONS, regions_);
  std::copy_n(in.done, 3, done_);
  slow_step_cycles_ = in.slow_step_cycles;
  result_ = result;
  timed_ = true;
}

Known *KnownPrograms::find(uint64_t address, uint32_t count) {
  for (const std::unique_ptr<Known> &p : programs_)
    if (p->address == address && p->count == count) return p.get();
  return nullptr;
}

Known *KnownPrograms::add(uint64_t address, uint32_t count) {
  const auto goes = [&](const std::unique_ptr<Known> &p) { return p->count > kMostInsns || (p->address == address && p->count == count); };
  programs_.erase(std::remove_if(programs_.begin(), programs_.end(), goes), programs_.end());
  if (programs_.size() == kMost) programs_.erase(programs_.begin());
  programs_.push_back(std::make_unique<Known>());
  programs_.back()->address = address;
  programs_.back()->count = count;
  return programs_.back().get();
}

}  // namespace lds::sim
