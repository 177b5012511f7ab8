// Kernels for hosts with AVX-512 VNNI.
// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

namespace lds::sim {
const Kernels *avx512_kernels() { return nullptr; }
}  // namespace lds::sim
