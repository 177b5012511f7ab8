// Derive tokens from hazards, for any units and queues between them: isa/tokens.py explains the method.
//
// In:   units, cycles and conflicts of instructions in program order; the queues.
// Out:  the tokens, and no-ops where a unit must forward a dependence of another one.
// Next: isa/tokens.py makes a stream of them, isa/token_proof.py proves that they suffice; nothing is proven here.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lds_order.h"

namespace lds::order {
namespace {

constexpr int32_t kNone = LDS_ORDER_NONE;
constexpr int32_t kFew = 64;  // a queue with a smaller capacity is treated as short
constexpr int kDeepest = 8;   // the depth of no-ops inserted for no-ops; beyond it the proof reports an overflow
constexpr int64_t kForever = int64_t{1} << 62;

struct Stuck {
  int32_t status;
  int32_t who[3];
};

struct Queue {
  size_t pusher, popper, most;
  bool few;
  std::vector<std::pair<int32_t, int32_t>> pops;  // (popper, pusher), both ascending
};

// An instruction of the late queue's pusher, and when it should be done, in cycles of the popper.
struct Done {
  int64_t when;
  int32_t number;
};

struct Result : lds_ordered {
  std::vector<int32_t> sources, noops;
  std::vector<lds_token> all;
};

// The state of the walk over the stream: instructions are numbered in the order of the new stream.
class Ordering {
 public:
  Ordering(const lds_token_rules &rules, const lds_order_steps &steps);
  void walk();
  void into(Result *result);

 private:
  int32_t count() const { return static_cast<int32_t>(source_.size()); }
  int32_t *knows(size_t unit) { return &knows_[unit * units_]; }
  int32_t *after(int32_t number) { return &after_[static_cast<size_t>(number) * units_]; }
  int64_t spent(int32_t number, size_t unit) const { return spent_[static_cast<size_t>(number) * units_ + unit]; }
  int64_t cycles(int32_t number) const;
  Queue *between(size_t pusher, size_t popper) { return &queues_[static_cast<size_t>(between_[pusher * units_ + popper])]; }
  bool near(size_t pusher, size_t popper) const { return between_[pusher * units_ + popper] != kNone; }
  bool is_late(size_t pusher, size_t popper) const { return late_ && late_->pusher == pusher && late_->popper == popper; }
  void find_paths();
  int32_t latest_done() const;
  int32_t drained(const Queue &queue, int32_t taken) const;
  void tokens_for(size_t unit, std::vector<int32_t> *needed);
  void make_room(size_t unit, std::vector<int32_t> *needed);
  int32_t with_room(size_t source, size_t unit, int32_t number);
  std::pair<int32_t, size_t> by_way_of(size_t far, size_t unit, int32_t number);
  int32_t carrier(size_t far, size_t by, size_t unit, int32_t number);
  bool fits(const Queue &queue, int32_t pusher, int32_t popper) const;
  void make_wait(Queue *queue, int32_t pusher, int32_t popper);
  void wait(size_t source, size_t unit, int32_t number);
  void learn(int32_t *known, const int32_t *learned) const;
  int32_t append(size_t unit, int32_t source, int32_t noop);

  const lds_order_steps &steps_;
  size_t units_;
  std::vector<Queue> queues_;
  std::vector<std::vector<size_t>> pushed_;              // by unit, the queues that it pushes to
  std::vector<int32_t> between_;                         // by pusher and popper, their queue
  std::vector<std::vector<std::vector<size_t>>> paths_;  // [from][to]: the units after `from` on the shortest path, `to` last
  std::vector<int64_t> noop_cycles_;
  const Queue *late_ = nullptr;
  bool has_few_ = false;
  int depth_ = 0;  // of no-ops that make room for no-ops

  std::vector<int32_t> source_, noop_;         // as in lds_ordered
  std::vector<int32_t> knows_;                 // [s][g]: the last instruction of unit g that unit s can be sure is complete
  std::vector<int32_t> after_;                 // [n][g]: what is known when instruction n is complete
  std::vector<int64_t> clock_, spent_;         // cycles of each unit so far; [n][g]: before instruction n
  std::vector<std::vector<int32_t>> of_unit_;  // numbers of its instructions
  std::vector<Done> done_;                     // of the late queue
  std::vector<int32_t> fresh_;                 // of an instruction of its popper: the latest that should be done when it starts
};

Ordering::Ordering(const lds_token_rules &rules, const lds_order_steps &steps)
    : steps_(steps), units_(rules.units), pushed_(units_), between_(units_ * units_, kNone), knows_(units_ * units_, kNone) {
  for (uint32_t k = 0; k < rules.queues; k++) {
    const auto pusher = static_cast<size_t>(rules.pusher[k]), popper = static_cast<size_t>(rules.popper[k]);
    queues_.push_back({pusher, popper, static_cast<size_t>(rules.most[k]), rules.most[k] < kFew, {}});
    pushed_[pusher].push_back(k);
    between_[pusher * units_ + popper] = static_cast<int32_t>(k);
    has_few_ = has_few_ || rules.most[k] < kFew;
  }
  if (rules.late != kNone) late_ = &queues_[static_cast<size_t>(rules.late)];
  noop_cycles_.assign(rules.noop_cycles, rules.noop_cycles + units_);
  clock_.resize(units_);
  of_unit_.resize(units_);
  find_paths();
}

void Ordering::find_paths() {
  paths_.assign(units_, std::vector<std::vector<size_t>>(units_));
  for (size_t begin = 0; begin < units_; begin++) {
    std::vector<size_t> edge{begin};
    for (size_t k = 0; k < edge.size(); k++) {
      const std::vector<size_t> passed = paths_[begin][edge[k]];
      for (const size_t queue : pushed_[edge[k]]) {
        const size_t to = queues_[queue].popper;
        if (to == begin || !paths_[begin][to].empty()) continue;
        paths_[begin][to] = passed;
        paths_[begin][to].push_back(to);
        edge.push_back(to);
      }
    }
  }
}

void Ordering::walk() {
  std::vector<int32_t> place;  // of each instruction so far, its number in the new stream
  std::vector<int32_t> needed(units_);
  for (uint32_t n = 0; n < steps_.count; n++) {
    const auto unit = static_cast<size_t>(steps_.unit[n]);
    const int32_t *overtaken = steps_.conflicts + n * units_;
    for (size_t other = 0; other < units_; other++) {
      const int32_t last = overtaken[other];
      needed[other] = steps_.joins[n] ? knows(other)[other] : last == kNone ? kNone : place[static_cast<size_t>(last)];
    }
    tokens_for(unit, &needed);
    const int32_t number = append(unit, static_cast<int32_t>(n), kNone);
    place.push_back(number);
    clock_[unit] += steps_.cycles[n];
    if (late_ && unit == late_->pusher) {
      const int64_t begin = std::max(clock_[late_->popper], done_.empty() ? 0 : done_.back().when);
      done_.push_back({begin + steps_.cycles[n], number});
    }
  }
}

void Ordering::into(Result *result) {
  for (size_t k = 0; k < queues_.size(); k++)
    for (const auto &[popper, pusher] : queues_[k].pops) result->all.push_back({static_cast<int32_t>(k), pusher, popper});
  result->sources = std::move(source_);
  result->noops = std::move(noop_);
}

// The latest instruction of the late queue that should have completed by now, or none.
int32_t Ordering::latest_done() const {
  if (!late_) return kNone;
  const auto later = [](int64_t now, const Done &done) { return now < done.when; };
  const auto place = std::upper_bound(done_.begin(), done_.end(), clock_[late_->popper], later);
  return place == done_.begin() ? kNone : std::prev(place)->number;
}

// The instruction for which the pusher's next one, which knows `taken` of the popper, must wait so that it does not run so far ahead that
// their queue overflows. With `many` tokens in a queue their source waits: instructions already out may push as many again.
int32_t Ordering::drained(const Queue &queue, int32_t taken) const {
  const auto &pops = queue.pops;
  const size_t many = queue.most / 2;
  if (queue.few || pops.size() <= many || pops[pops.size() - many - 1].first <= taken) return kNone;
  return pops[pops.size() - (many + 1) / 2].first;
}

// The next instruction of `unit`, which must not overtake `needed`, pops.
void Ordering::tokens_for(size_t unit, std::vector<int32_t> *needed) {
  std::vector<int32_t> &wanted = *needed;
  for (const size_t k : pushed_[unit]) {
    const size_t popper = queues_[k].popper;
    wanted[popper] = std::max(wanted[popper], drained(queues_[k], knows(unit)[popper]));
  }
  if (std::equal(wanted.begin(), wanted.end(), knows(unit), std::less_equal<int32_t>())) return;  // the common case
  for (size_t far = 0; far < units_; far++) {
    if (far == unit || near(far, unit) || wanted[far] <= knows(unit)[far]) continue;
    const auto [through, by] = by_way_of(far, unit, wanted[far]);
    wanted[by] = std::max(wanted[by], through);
  }
  if (late_ && late_->popper == unit && wanted[late_->pusher] > knows(unit)[late_->pusher])
    wanted[late_->pusher] = std::max(wanted[late_->pusher], latest_done());
  if (has_few_) make_room(unit, needed);
  for (size_t source = 0; source < units_; source++)
    if (near(source, unit)) wait(source, unit, wanted[source]);
}

void Ordering::make_room(size_t unit, std::vector<int32_t> *needed) {
  for (int32_t before = kNone; before < count();) {  // freeing an entry of one queue may occupy one of another
    before = count();
    for (size_t source = 0; source < units_; source++)
      if (near(source, unit)) (*needed)[source] = with_room(source, unit, (*needed)[source]);
  }
}

// The instruction of `source` that pushes the token for one that must not be overtaken: for a short queue the first that knows of a free
// entry, or a no-op.
int32_t Ordering::with_room(size_t source, size_t unit, int32_t number) {
  const Queue &queue = *between(source, unit);
  if (number <= knows(unit)[source] || !queue.few || queue.pops.size() < queue.most) return number;
  const int32_t taken = queue.pops[queue.pops.size() - queue.most].first;
  const auto &own = of_unit_[source];
  for (auto it = std::lower_bound(own.begin(), own.end(), number); it != own.end(); ++it)
    if (after(*it)[unit] >= taken) return *it;
  if (noop_cycles_[source] < 0 || depth_ > kDeepest) return number;  // the proof says which queue overflows
  std::vector<int32_t> needed(units_, kNone);
  needed[unit] = taken;
  depth_++;
  tokens_for(source, &needed);
  depth_--;
  return append(source, source_[static_cast<size_t>(number)], static_cast<int32_t>(source));
}

// An instruction that knows `number` of `far`, and its unit, a neighbour of `unit`.
std::pair<int32_t, size_t> Ordering::by_way_of(size_t far, size_t unit, int32_t number) {
  const auto &path = paths_[far][unit];
  if (path.empty()) throw Stuck{LDS_ORDER_NO_QUEUE, {static_cast<int32_t>(far), static_cast<int32_t>(unit), kNone}};
  size_t source = far;
  for (size_t k = 0; k + 1 < path.size(); k++) {
    number = carrier(source, path[k], unit, number);
    source = path[k];
  }
  return {number, source};
}

// An instruction of `by` that is after `number` of `far`, for `unit` to wait for; inserted when there is none.
//
// The earliest that already knows it; else one that can be made to wait without stalling: one at whose start a late enough instruction of
// `far` should have completed, or, where this is not estimated, one that starts as many cycles of `by` later as the instruction takes.
int32_t Ordering::carrier(size_t far, size_t by, size_t unit, int32_t number) {
  Queue *queue = between(far, by);
  const bool late = is_late(far, by);
  const int64_t not_before = late ? -kForever : spent(number, by) + cycles(number);
  const auto &own = of_unit_[by];
  for (auto it = std::upper_bound(own.begin(), own.end(), std::max(number, knows(unit)[by])); it != own.end(); ++it) {
    if (after(*it)[far] >= number) return *it;
    const int32_t source = late ? fresh_[static_cast<size_t>(*it)] : number;
    if (source >= number && spent(*it, by) >= not_before && fits(*queue, source, *it)) {
      make_wait(queue, source, *it);
      return *it;
    }
  }
  if (noop_cycles_[by] < 0)
    throw Stuck{LDS_ORDER_NO_NOOP, {static_cast<int32_t>(unit), static_cast<int32_t>(far), static_cast<int32_t>(by)}};
  wait(far, by, with_room(far, by, number));
  return append(by, source_[static_cast<size_t>(number)], static_cast<int32_t>(by));
}

// Whether instruction `popper` can still pop a token of `pusher`: queues are first in, first out, and each instruction pops one token of
// a queue and pushes one at most.
bool Ordering::fits(const Queue &queue, int32_t pusher, int32_t popper) const {
  if (queue.few) return false;  // the tokens after it would move forward
  const auto &pops = queue.pops;
  const auto place = std::lower_bound(pops.begin(), pops.end(), std::make_pair(popper, kNone));
  return (place == pops.begin() || std::prev(place)->second < pusher) &&
         (place == pops.end() || (place->first != popper && pusher < place->second));
}

// Instruction `popper`, already in the stream, waits for `pusher`.
void Ordering::make_wait(Queue *queue, int32_t pusher, int32_t popper) {
  auto &pops = queue->pops;
  const auto token = std::make_pair(popper, pusher);
  pops.insert(std::upper_bound(pops.begin(), pops.end(), token), token);
  const auto &own = of_unit_[queue->popper];
  for (auto it = std::lower_bound(own.begin(), own.end(), popper); it != own.end(); ++it) learn(after(*it), after(pusher));
  learn(knows(queue->popper), after(pusher));
}

// The next instruction of `unit` waits for `number` of its neighbour `source`.
void Ordering::wait(size_t source, size_t unit, int32_t number) {
  if (number <= knows(unit)[source]) return;
  between(source, unit)->pops.emplace_back(count(), number);
  learn(knows(unit), after(number));
}

void Ordering::learn(int32_t *known, const int32_t *learned) const {
  for (size_t unit = 0; unit < units_; unit++) known[unit] = std::max(known[unit], learned[unit]);
}

// Appends an instruction.
int32_t Ordering::append(size_t unit, int32_t source, int32_t noop) {
  const int32_t number = count();
  if (number == INT32_MAX) throw std::length_error("instructions");
  source_.push_back(source);
  noop_.push_back(noop);
  knows(unit)[unit] = number;
  after_.insert(after_.end(), knows(unit), knows(unit) + units_);
  spent_.insert(spent_.end(), clock_.begin(), clock_.end());
  of_unit_[unit].push_back(number);
  fresh_.push_back(late_ && unit == late_->popper ? latest_done() : kNone);
  return number;
}

int64_t Ordering::cycles(int32_t number) const {
  const auto k = static_cast<size_t>(number);
  return noop_[k] == kNone ? steps_.cycles[source_[k]] : noop_cycles_[static_cast<size_t>(noop_[k])];
}

bool is_below(int32_t number, uint32_t end) { return number >= 0 && static_cast<uint32_t>(number) < end; }

bool are_rules(const lds_token_rules &rules) {
  for (uint32_t k = 0; k < rules.queues; k++) {
    if (!is_below(rules.pusher[k], rules.units) || !is_below(rules.popper[k], rules.units)) return false;
    if (rules.pusher[k] == rules.popper[k] || rules.most[k] < 1) return false;
  }
  for (uint32_t unit = 0; unit < rules.units; unit++)
    if (rules.noop_cycles[unit] > UINT32_MAX) return false;
  return rules.late == kNone || is_below(rules.late, rules.queues);
}

// Checks that units exist, that conflicts are with earlier instructions, and that the sum of cycles cannot overflow.
bool are_steps(const lds_token_rules &rules, const lds_order_steps &steps) {
  int64_t left = kForever - UINT32_MAX;
  if (steps.count >= INT32_MAX) return false;
  for (uint32_t n = 0; n < steps.count; n++) {
    if (!is_below(steps.unit[n], rules.units) || steps.cycles[n] < 0 || steps.cycles[n] > left) return false;
    left -= steps.cycles[n];
    for (size_t unit = 0; unit < rules.units; unit++) {
      const int32_t last = steps.conflicts[n * size_t{rules.units} + unit];
      if (last != kNone && (!is_below(last, n) || static_cast<size_t>(steps.unit[last]) != unit)) return false;
    }
  }
  return true;
}

void order_tokens(const lds_token_rules &rules, const lds_order_steps &steps, Result *result) {
  if (!are_rules(rules) || !are_steps(rules, steps)) {
    result->status = LDS_ORDER_BAD_ARGUMENT;
    return;
  }
  try {
    Ordering ordering(rules, steps);
    ordering.walk();
    ordering.into(result);
  } catch (const Stuck &stuck) {
    result->status = stuck.status;
    std::copy(std::begin(stuck.who), std::end(stuck.who), result->who);
  }
}

}  // namespace
}  // namespace lds::order

const lds_ordered *lds_order_tokens(const lds_token_rules *rules, const lds_order_steps *steps) {
  try {
    auto result = std::make_unique<lds::order::Result>();
    lds::order::order_tokens(*rules, *steps, result.get());
    result->steps = static_cast<uint32_t>(result->sources.size());
    result->tokens = static_cast<uint32_t>(result->all.size());
    result->source = result->sources.data();
    result->noop = result->noops.data();
    result->token = result->all.data();
    return result.release();
  } catch (const std::bad_alloc &) {
    return nullptr;
  } catch (const std::length_error &) {
    return nullptr;
  }
}

void lds_ordered_free(const lds_ordered *ordered) { delete static_cast<const lds::order::Result *>(ordered); }
