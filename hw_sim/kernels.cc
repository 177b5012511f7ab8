// The tables of kernels that this host can run.
//
// In:   the tables for which the compiler has flags.
// Out:  avx2_kernels(), avx512_kernels(), neon_kernels(), wasm_kernels().
// Next: machine.cc chooses one.
//
// These tests are here and not in the tables' files, because they run on hosts that may lack the instructions of those files.
// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace lds::sim {
namespace {

#if defined(__x86_64__) || defined(__i386__)
// Bits of XCR0: the system saves these registers when it changes threads.
constexpr uint32_t kSavesAvx = 0x06, kSavesAvx512 = 0xE6;

uint32_t saved_registers() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Asked of the processor itself: __builtin_cpu_supports always says no in programs of zig, whose runtime does not ask.
bool has(uint32_t saved, uint32_t wanted_ebx, uint32_t wanted_ecx) {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_OSXSAVE) == 0 || (saved_registers() & saved) != saved) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (ebx & wanted_ebx) == wanted_ebx && (ecx & wanted_ecx) == wanted_ecx;
}

bool has_avx2() { return has(kSavesAvx, bit_AVX2, 0); }
bool has_avx512() {
  return has(kSavesAvx512, uint32_t{bit_AVX512F} | uint32_t{bit_AVX512BW} | uint32_t{bit_AVX512DQ} | uint32_t{bit_AVX512VL},
             bit_AVX512VNNI);
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
