// Guard memory of a file that another process can truncate: an access beyond its end must not end this process.
//
// In:   a range of such memory.
// Out:  whether an access was beyond the end. The missing part reads as zeros from then on.
// Next: device.cc makes it an error of the job.
//
// The kernel answers such an access with SIGBUS. The handler puts fresh memory there and notes it, and the access goes on: a copy
// in the middle of a run needs no check before each byte, and no way out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace lds::sim {

class Guard {
 public:
  // Throws std::bad_alloc when too many are in use.
  Guard(void *memory, size_t size);
  ~Guard();
  Guard(const Guard &) = delete;
  Guard &operator=(const Guard &) = delete;

  bool lost() const;

 private:
  size_t slot_;
};

}  // namespace lds::sim
