// Guard mapped memory of a file that another process can truncate: an access beyond the file's end must not end this process.
//
// In:   a range of such memory.
// Out:  whether there was an access beyond the end. The missing part reads as zeros from then on.
// Next: device.cc ends the job with an error.
//
// The kernel answers such an access with SIGBUS. The signal handler maps zeroed memory at this place and records the event, and the
// access continues. Copies in the middle of a run therefore need neither a check for each byte nor an error path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace lds::sim {

class Guard {
 public:
  // Throws std::bad_alloc when too many guards are in use.
  Guard(void *memory, size_t size);
  ~Guard();
  Guard(const Guard &) = delete;
  Guard &operator=(const Guard &) = delete;

  bool lost() const;

 private:
  size_t slot_;
};

}  // namespace lds::sim
