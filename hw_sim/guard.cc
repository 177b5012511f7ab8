// Implementation of guard.h.
// SPDX-License-Identifier: Apache-2.0
#include "guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <iterator>
#include <mutex>
#include <new>

namespace lds::sim {
namespace {

// Read by a signal handler: a fixed table of numbers. begin 0: free.
struct Slot {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> lost{false};
};
Slot slots[16];
std::mutex slots_mutex;
uintptr_t page_bytes = 4096;
struct sigaction before;

void on_bus_error(int number, siginfo_t *info, void *) {
  const int kept = errno;
  const uintptr_t at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Slot &slot : slots) {
    const uintptr_t begin = slot.begin.load(), end = slot.end.load();
    if (begin == 0 || at < begin || at >= end) continue;
    void *page = reinterpret_cast<void *>(at & ~(page_bytes - 1));
    const size_t rest = end - (at & ~(page_bytes - 1));  // everything behind the new end of the file is missing, too
    if (mmap(page, rest, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) break;
    slot.lost.store(true);
    errno = kept;
    return;
  }
  sigaction(number, &before, nullptr);  // not a guarded range: the access is repeated, and the previous handler receives the signal
  errno = kept;
}

void install() {
  struct sigaction action = {};
  page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &before);
}

}  // namespace

Guard::Guard(void *memory, size_t size) : slot_(0) {
  static std::once_flag once;
  std::call_once(once, install);
  const std::lock_guard<std::mutex> lock(slots_mutex);
  while (slot_ < std::size(slots) && slots[slot_].begin.load() != 0) ++slot_;
  if (slot_ == std::size(slots)) throw std::bad_alloc();
  slots[slot_].lost.store(false);
  slots[slot_].end.store(reinterpret_cast<uintptr_t>(memory) + size);
  slots[slot_].begin.store(reinterpret_cast<uintptr_t>(memory));
}

Guard::~Guard() {
  const std::lock_guard<std::mutex> lock(slots_mutex);
  slots[slot_].begin.store(0);
}

bool Guard::lost() const { return slots[slot_].lost.load(); }

}  // namespace lds::sim
