// Implementation of shared_bus.h.
// SPDX-License-Identifier: Apache-2.0
#include "shared_bus.h"

#include <algorithm>
#include <chrono>

namespace lds::sim {

using Lock = std::unique_lock<std::mutex>;

void SharedBus::join(lds_sim *sim) {
  Lock lock(mutex_);
  members_.push_back({sim});
}

void SharedBus::leave(lds_sim *sim) {
  Lock lock(mutex_);
  forget(&member(sim));
  members_.erase(std::find_if(members_.begin(), members_.end(), [&](const Member &m) { return m.sim == sim; }));
}

SharedBus::Member &SharedBus::member(const lds_sim *sim) {
  return *std::find_if(members_.begin(), members_.end(), [&](const Member &m) { return m.sim == sim; });
}

void SharedBus::started(lds_sim *sim) {
  Lock lock(mutex_);
  Member &m = member(sim);
  m.state = kStarted;
  m.is_next = closed_;
}

void SharedBus::looked() {
  Lock lock(mutex_);
  if (closed_) return;
  closed_ = std::any_of(members_.begin(), members_.end(), [](const Member &m) { return m.state != kIdle; });
  if (closed_) changed_.notify_all();
}

void SharedBus::dropped(lds_sim *sim) {
  Lock lock(mutex_);
  forget(&member(sim));
}

// No job of it is left in a group; a group without any has ended.
void SharedBus::forget(Member *m) {
  m->state = kIdle;
  if (std::none_of(members_.begin(), members_.end(), [](const Member &o) { return o.state != kIdle && !o.is_next; })) end_group();
  changed_.notify_all();
}

bool SharedBus::is_complete() const {
  return closed_ && std::all_of(members_.begin(), members_.end(), [](const Member &m) { return m.state != kStarted || m.is_next; });
}

void SharedBus::end_group() {
  closed_ = false;
  for (Member &m : members_) m.is_next = false;
}

void SharedBus::ran(lds_sim *sim, lds_sim_result *result, const std::function<bool()> &stops) {
  Lock lock(mutex_);
  {
    Member &m = member(sim);
    m.state = kRan;
    m.result = result;
  }
  const auto begin = std::chrono::steady_clock::now();
  while (member(sim).state == kRan) {
    if (stops()) return forget(&member(sim));
    if (!member(sim).is_next && is_complete()) {
      std::vector<lds_sim *> sims;
      std::vector<lds_sim_result> results;
      for (const Member &m : members_) {
        if (m.state != kRan || m.is_next || m.result->status != LDS_ERROR_NONE) continue;
        sims.push_back(m.sim);
        results.push_back(*m.result);
      }
      if (!sims.empty() && lds_sim_time_together(sims.data(), static_cast<uint32_t>(sims.size()), results.data()) == LDS_SIM_OK)
        for (size_t k = 0; k < sims.size(); ++k) *member(sims[k]).result = results[k];
      for (Member &m : members_)
        if (m.state == kRan && !m.is_next) m.state = kIdle;
      end_group();
      changed_.notify_all();
      return;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(2));
    if (!closed_ && std::chrono::steady_clock::now() - begin > std::chrono::seconds(1)) closed_ = true;
  }
}

}  // namespace lds::sim
