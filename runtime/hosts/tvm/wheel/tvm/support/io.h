/* Stands in for a header that tvm/runtime/tensor.h includes, and that the wheels of apache-tvm 0.27 leave out.
 *
 * In:   nothing.
 * Out:  the class that tensor.h's Save and Load are written with; memory.cc calls neither.
 * Next: TVM's own header, where it is installed, is found first.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_TVM_IO_H
#define LDS_TVM_IO_H

#include <cstddef>

namespace tvm {
namespace support {
class Stream {
 public:
  virtual ~Stream() = default;
  template <typename T>
  void Write(const T &) {}
  template <typename T>
  bool Read(T *) {
    return false;
  }
  std::size_t Write(const void *, std::size_t) { return 0; }
  std::size_t Read(void *, std::size_t) { return 0; }
  template <typename T>
  void WriteArray(const T *, std::size_t) {}
  template <typename T>
  bool ReadArray(T *, std::size_t) {
    return false;
  }
};
}  // namespace support
}  // namespace tvm

#endif  // LDS_TVM_IO_H
