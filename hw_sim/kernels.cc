// The tables of kernels that this host can run.
//
// In:   the tables for which the compiler has flags.
// Out:  avx2_kernels(), avx512_kernels(), neon_kernels(), wasm_kernels().
// Next: machine.cc chooses one.
//
// These tests are here and not in the tables' files, because they run on hosts that may lack the instructions of those files.
// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace lds::sim {
namespace {

#if defined(__x86_64__) || defined(__i386__)
bool has_avx2() { return __builtin_cpu_supports("avx2"); }
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
#endif

#if defined(__aarch64__) && defined(__linux__)
bool has_dot_products() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
#else
bool has_dot_products() { return false; }
#endif

}  // namespace

const Kernels *avx2_kernels() {
  static const bool has = has_avx2();
  return has ? kAvx2Kernels : nullptr;
}

const Kernels *avx512_kernels() {
  static const bool has = has_avx512();
  return has ? kAvx512Kernels : nullptr;
}

const Kernels *neon_kernels() {
  static const bool has = has_dot_products();
  return has ? kNeonKernels : nullptr;
}

// A host that lacks the vectors would not have loaded the module.
const Kernels *wasm_kernels() { return kWasmKernels; }

}  // namespace lds::sim
