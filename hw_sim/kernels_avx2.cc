// Kernels for hosts with AVX2.
// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

namespace lds::sim {
const Kernels *avx2_kernels() { return nullptr; }
}  // namespace lds::sim
