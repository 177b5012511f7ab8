// Move loads of weights forward, in one walk over a program that estimates when each stage executes each operation.
//
// In:   operations in program order.
// Out:  a better order.
// Next: vta/passes/prefetch.py, which explains what is moved, and why.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <deque>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lds_prefetch.h"

namespace lds::prefetch {
namespace {

constexpr int64_t kMost = int64_t{1} << 30;  // places
constexpr int64_t kLast = int64_t{1} << 60;  // cycles of all operations
constexpr int64_t kNothing = -1;
constexpr int64_t kNever = -1;

class Timeline {
 public:
  Timeline(const lds_prefetch_stream &all, int64_t *order)
      : all_(all),
        next_(order),
        ready_(all.tiles, kNever),
        done_(all.tiles),
        loaded_(all.contents, kNever),
        stored_(all.tensors),
        is_early_(all.steps) {}

  void find_weights();
  void weigh();
  void walk();

 private:
  using Loads = std::vector<uint32_t>;  // those that fill one tile

  const lds_prefetch_tile &tile(int64_t number) const { return all_.tile[number]; }
  int64_t &ready(int64_t tile) { return ready_[static_cast<size_t>(tile)]; }
  int64_t &done(int64_t tile) { return done_[static_cast<size_t>(tile)]; }
  int64_t &loaded(int64_t content) { return loaded_[static_cast<size_t>(content)]; }
  void compute(const lds_prefetch_step &step);
  void store(const lds_prefetch_step &step);
  void load(uint32_t number);
  bool is_there(int64_t tile);
  int64_t released(const lds_prefetch_step &load) const;
  int64_t room_for(int64_t tile);
  void pull_weights(uint32_t number, int64_t release);

  const lds_prefetch_stream &all_;
  int64_t *next_;                  // in the new order
  std::deque<Loads> weights_;      // tiles that may still be prefetched, in order; their contents were not loaded before
  std::vector<int64_t> pressure_;  // at each operation: places of live weights, if each tile is kept from its first to its last use
  int64_t load_free_ = 0, compute_free_ = 0, store_free_ = 0;  // when each stage completes its operations so far
  std::vector<int64_t> ready_, done_;                          // of each tile, when its last write is done, and its last use so far
  std::vector<int64_t> loaded_;                                // of each content, when it came early
  std::vector<std::vector<int64_t>> stored_;                   // of each tensor and place, when its store is done
  std::deque<int64_t> inputs_;                                 // tiles in the input scratchpad, which is filled cyclically
  int64_t inputs_used_ = 0;
  std::vector<uint8_t> is_early_;  // of each operation
};

// Loads of each tile of weights whose content was not loaded before.
void Timeline::find_weights() {
  std::vector<uint8_t> is_seen(all_.contents);
  std::vector<size_t> place(all_.tiles);  // among weights_, from 1 on
  for (uint32_t n = 0; n < all_.steps; n++) {
    if (all_.step[n].kind != LDS_PREFETCH_WEIGHTS) continue;
    const int64_t into = all_.step[n].tile[0], content = tile(into).content;
    size_t &at = place[static_cast<size_t>(into)];
    if (!at) {
      if (content == kNothing || is_seen[static_cast<size_t>(content)]) continue;
      is_seen[static_cast<size_t>(content)] = 1;
      weights_.emplace_back();
      at = weights_.size();
    }
    weights_[at - 1].push_back(n);
  }
}

// A content is prefetched once, whichever tiles hold it.
void Timeline::weigh() {
  struct Life {
    uint32_t first = 0, past = 0;
    int64_t size = 0;
  };
  std::vector<Life> lives(all_.contents + size_t{all_.tiles});
  for (uint32_t n = 0; n < all_.steps; n++) {
    for (const int64_t one : all_.step[n].tile) {
      if (one == kNothing || !tile(one).weights) continue;
      const int64_t content = tile(one).content;
      Life &life = lives[static_cast<size_t>(content == kNothing ? all_.contents + one : content)];
      if (!life.past) life.first = n;
      life.past = n + 1;
      life.size = tile(one).size;
    }
  }
  pressure_.assign(size_t{all_.steps} + 1, 0);
  for (const Life &life : lives) {
    pressure_[life.first] += life.size;
    pressure_[life.past] -= life.size;
  }
  for (size_t n = 1; n < pressure_.size(); n++) pressure_[n] += pressure_[n - 1];
}

void Timeline::walk() {
  for (uint32_t n = 0; n < all_.steps; n++) {
    if (is_early_[n]) continue;
    const lds_prefetch_step &step = all_.step[n];
    if (step.kind == LDS_PREFETCH_STORE)
      store(step);
    else if (step.kind == LDS_PREFETCH_COMPUTE)
      compute(step);
    else
      load(n);
    *next_++ = n;
  }
}

void Timeline::compute(const lds_prefetch_step &step) {
  int64_t time = compute_free_;
  for (const int64_t one : step.tile)
    if (one != kNothing) time = std::max(time, ready(one));
  time += step.cycles;
  for (const int64_t one : step.tile)
    if (one != kNothing) done(one) = std::max(done(one), time);
  ready(step.tile[0]) = compute_free_ = time;
}

void Timeline::store(const lds_prefetch_step &step) {
  const int64_t from = step.tile[0], to = step.tile[2];
  store_free_ = std::max(store_free_, ready(from)) + step.cycles;
  done(from) = std::max(done(from), store_free_);
  if (to != kNothing) ready(to) = store_free_;
  if (!step.rows) return;
  std::vector<int64_t> &times = stored_[static_cast<size_t>(step.tensor)];
  const auto past = static_cast<size_t>(step.first + (step.rows - 1) * step.stride + step.row);
  if (times.size() < past) times.resize(past);
  for (int64_t y = 0; y < step.rows; y++) std::fill_n(times.data() + step.first + y * step.stride, step.row, store_free_);
}

void Timeline::load(uint32_t number) {
  const lds_prefetch_step &step = all_.step[number];
  const int64_t into = step.tile[0];
  if (is_there(into)) return;
  int64_t release = released(step);
  if (step.kind == LDS_PREFETCH_INPUT) {
    release = std::max(release, room_for(into));
    pull_weights(number, release);
  }
  int64_t &free = step.kind == LDS_PREFETCH_OPERANDS ? compute_free_ : load_free_;
  free = std::max(free, release) + step.cycles;
  done(into) = std::max(done(into), free);
  ready(into) = free;
}

// Drops the loads of a tile whose content was prefetched, for it or for another tile.
bool Timeline::is_there(int64_t into) {
  const int64_t content = tile(into).content;
  if (content == kNothing || loaded(content) == kNever) return false;
  if (ready(into) == kNever) ready(into) = loaded(content);
  return ready(into) == loaded(content);
}

// When the last store of the data that it reads completes.
int64_t Timeline::released(const lds_prefetch_step &load) const {
  const std::vector<int64_t> &times = stored_[static_cast<size_t>(load.tensor)];
  const auto end = static_cast<int64_t>(times.size());
  int64_t latest = 0;
  for (int64_t y = 0; y < load.rows; y++) {
    const int64_t first = load.first + y * load.stride, past = std::min(end, first + load.row);
    if (first >= end) break;
    for (int64_t place = first; place < past; place++) latest = std::max(latest, times[static_cast<size_t>(place)]);
  }
  return latest;
}

// When the input scratchpad has room for one more tile: after the last uses of the oldest tiles.
int64_t Timeline::room_for(int64_t into) {
  if (!inputs_.empty() && inputs_.back() == into) return 0;
  inputs_.push_back(into);
  inputs_used_ += tile(into).size;
  int64_t time = 0;
  while (inputs_used_ > all_.inputs && inputs_.size() > 1) {
    const int64_t oldest = inputs_.front();
    inputs_.pop_front();
    inputs_used_ -= tile(oldest).size;
    time = std::max(time, done(oldest));
  }
  return time;
}

// Puts loads of weights in front of operation `number`, as many as fit into the gap until `release` and into the scratchpad.
void Timeline::pull_weights(uint32_t number, int64_t release) {
  while (!weights_.empty() && load_free_ < release) {
    const Loads &loads = weights_.front();
    const uint32_t first = loads.front();
    if (first > number) {
      int64_t cycles = 0;
      for (const uint32_t n : loads) cycles += all_.step[n].cycles;
      if (load_free_ + cycles > release + cycles / 2) return;
      const int64_t into = all_.step[first].tile[0], size = tile(into).size;
      int64_t *const here = pressure_.data() + number, *const there = pressure_.data() + first;
      if (std::any_of(here, there, [&](int64_t places) { return places + size > all_.weights; })) return;
      std::for_each(here, there, [size](int64_t &places) { places += size; });
      load_free_ += cycles;
      ready(into) = loaded(tile(into).content) = load_free_;
      for (const uint32_t n : loads) {
        is_early_[n] = 1;
        *next_++ = n;
      }
    }
    weights_.pop_front();
  }
}

bool is_in(int64_t number, int64_t low, int64_t end) { return low <= number && number < end; }

bool are_tiles(const lds_prefetch_stream &all) {
  for (uint32_t k = 0; k < all.tiles; k++)
    if (!is_in(all.tile[k].size, 0, kMost) || !is_in(all.tile[k].content, kNothing, all.contents)) return false;
  return true;
}

bool are_steps(const lds_prefetch_stream &all) {
  int64_t left = kLast;
  for (uint32_t n = 0; n < all.steps; n++) {
    const lds_prefetch_step &step = all.step[n];
    if (!is_in(step.kind, LDS_PREFETCH_WEIGHTS, LDS_PREFETCH_COMPUTE + 1) || !is_in(step.cycles, 0, left)) return false;
    left -= step.cycles;
    if (step.tile[0] == kNothing) return false;
    for (const int64_t one : step.tile)
      if (!is_in(one, kNothing, all.tiles)) return false;
    if (step.kind == LDS_PREFETCH_COMPUTE) continue;
    if (!is_in(step.tensor, 0, all.tensors)) return false;
    for (const int64_t places : {step.first, step.rows, step.row, step.stride})
      if (!is_in(places, 0, kMost)) return false;
  }
  return true;
}

}  // namespace
}  // namespace lds::prefetch

int lds_prefetch(const lds_prefetch_stream *stream, int64_t *order) {
  if (!lds::prefetch::are_tiles(*stream) || !lds::prefetch::are_steps(*stream)) return LDS_PREFETCH_BAD_ARGUMENT;
  try {
    lds::prefetch::Timeline timeline(*stream, order);
    timeline.find_weights();
    timeline.weigh();
    timeline.walk();
    return LDS_PREFETCH_OK;
  } catch (const std::bad_alloc &) {
    return LDS_PREFETCH_NO_MEMORY;
  } catch (const std::length_error &) {
    return LDS_PREFETCH_NO_MEMORY;
  }
}
