// Find the instructions that each instruction must not overtake, from the last accesses to each place.
//
// In:   accesses (touches) in program order.
// Out:  conflicts. A writer conflicts with everyone else, a reader with writers; a unit's own touches are in order.
// Next: order.cc derives tokens from them; isa/token_proof.py checks the tokens against them.
//
// For each memory there is a row for each unit and kind of touch that another unit can conflict with: for each place, its last instruction.
// Places are counted in the largest grain that divides all touches of a memory.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <new>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "lds_order.h"

namespace lds::order {
namespace {

constexpr int64_t kFarthest = int64_t{1} << 62;

struct Space {
  int64_t base = kFarthest, end = 0;  // of all touches
  int64_t grain = 0;
  int64_t step = 0;                        // of the latest touch
  std::vector<uint8_t> touched;            // by unit and kind: whether one does
  std::vector<std::vector<int32_t>> rows;  // by unit and kind; empty: no other unit needs it
};

size_t kind_of(size_t unit, bool writes) { return 2 * unit + writes; }

// Extends the space by the places of a touch; false: the touch is invalid.
bool add(const lds_touch &touch, const lds_touch_loop *loop, size_t kind, Space *space) {
  if (touch.first < 0 || touch.first > kFarthest || touch.extent < 0 || touch.extent > kFarthest - touch.first) return false;
  if (touch.step < space->step) return false;
  int64_t end = touch.first + touch.extent;
  int64_t grain = std::gcd(std::gcd(space->grain, touch.first), touch.extent);
  for (int64_t k = 0; k < touch.loops; k++) {
    const int64_t count = loop[k].count, stride = loop[k].stride;
    if (count < 1 || stride < 0) return false;
    if (stride > 0 && count - 1 > (kFarthest - end) / stride) return false;
    end += (count - 1) * stride;
    grain = std::gcd(grain, stride);
  }
  space->step = touch.step;
  space->base = std::min(space->base, touch.first);
  space->end = std::max(space->end, end);
  space->grain = grain;
  space->touched[kind] = 1;
  return true;
}

// Checks that the step, unit, space and loops of every touch exist.
bool gather(const lds_touching &all, std::vector<Space> *spaces) {
  int64_t loops = 0;
  for (uint32_t n = 0; n < all.touches; n++) {
    const lds_touch &touch = all.touch[n];
    if (touch.step < 0 || touch.step >= all.steps || touch.space < 0 || touch.space >= all.spaces) return false;
    if (touch.loops < 0 || touch.loops > all.loops - loops) return false;
    const auto unit = static_cast<size_t>(all.unit[touch.step]);
    if (!add(touch, all.loop + loops, kind_of(unit, touch.writes != 0), &(*spaces)[static_cast<size_t>(touch.space)])) return false;
    loops += touch.loops;
  }
  return true;
}

void make_rows(size_t units, Space *space) {
  space->grain = std::max<int64_t>(space->grain, 1);
  const auto places = static_cast<size_t>((space->end - space->base) / space->grain);
  for (size_t one = 0; one < 2 * units; one++) {
    if (!space->touched[one]) continue;
    for (size_t other = 0; other < 2 * units; other++) {
      const bool looked_at = one / 2 != other / 2 && space->touched[other] && (one % 2 || other % 2);
      if (looked_at) space->rows[one].assign(places, LDS_ORDER_NONE);
    }
  }
}

// Calls `run(first, count)` for each run of places, in grains from the space's base.
template <typename Run>
void for_runs(const lds_touch_loop *loop, int64_t loops, int64_t first, int64_t extent, int64_t grain, const Run &run) {
  if (loops == 0) {
    run(static_cast<size_t>(first / grain), static_cast<size_t>(extent / grain));
  } else if (loops == 1 && loop->stride == extent) {
    run(static_cast<size_t>(first / grain), static_cast<size_t>(loop->count * extent / grain));
  } else {
    for (int64_t k = 0; k < loop->count; k++) for_runs(loop + 1, loops - 1, first + k * loop->stride, extent, grain, run);
  }
}

int32_t latest(const std::vector<int32_t> &row, const lds_touch &touch, const lds_touch_loop *loop, const Space &space) {
  int32_t found = LDS_ORDER_NONE;
  for_runs(loop, touch.loops, touch.first - space.base, touch.extent, space.grain, [&](size_t first, size_t count) {
    for (size_t k = 0; k < count; k++) found = std::max(found, row[first + k]);
  });
  return found;
}

// Records the instructions that this touch must not overtake in `conflicts`, and the touch itself in its row.
void look(const lds_touch &touch, const lds_touch_loop *loop, size_t unit, size_t units, Space *space, int32_t *conflicts) {
  const bool writes = touch.writes != 0;
  for (size_t other = 0; other < units; other++) {
    if (other == unit) continue;
    for (const bool written : {true, false}) {
      const auto &row = space->rows[kind_of(other, written)];
      if ((writes || written) && !row.empty()) conflicts[other] = std::max(conflicts[other], latest(row, touch, loop, *space));
    }
  }
  auto &own = space->rows[kind_of(unit, writes)];
  if (own.empty()) return;
  const auto number = static_cast<int32_t>(touch.step);
  for_runs(loop, touch.loops, touch.first - space->base, touch.extent, space->grain,
           [&](size_t first, size_t count) { std::fill_n(own.begin() + static_cast<std::ptrdiff_t>(first), count, number); });
}

int conflicts_of(const lds_touching &all, int32_t *conflicts) {
  const size_t units = all.units;
  if (all.steps > INT32_MAX) return LDS_ORDER_BAD_ARGUMENT;
  for (uint32_t n = 0; n < all.steps; n++)
    if (all.unit[n] < 0 || static_cast<size_t>(all.unit[n]) >= units) return LDS_ORDER_BAD_ARGUMENT;
  std::vector<Space> spaces(all.spaces);
  for (Space &space : spaces) {
    space.touched.resize(2 * units);
    space.rows.resize(2 * units);
  }
  if (!gather(all, &spaces)) return LDS_ORDER_BAD_ARGUMENT;
  for (Space &space : spaces) make_rows(units, &space);
  std::fill_n(conflicts, all.steps * units, LDS_ORDER_NONE);
  const lds_touch_loop *loop = all.loop;
  for (uint32_t n = 0; n < all.touches; n++) {
    const lds_touch &touch = all.touch[n];
    const auto step = static_cast<size_t>(touch.step);
    look(touch, loop, static_cast<size_t>(all.unit[step]), units, &spaces[static_cast<size_t>(touch.space)], conflicts + step * units);
    loop += touch.loops;
  }
  return LDS_ORDER_OK;
}

}  // namespace
}  // namespace lds::order

int lds_order_conflicts(const lds_touching *touching, int32_t *conflicts) {
  try {
    return lds::order::conflicts_of(*touching, conflicts);
  } catch (const std::bad_alloc &) {
    return LDS_ORDER_NO_MEMORY;
  } catch (const std::length_error &) {
    return LDS_ORDER_NO_MEMORY;
  }
}
