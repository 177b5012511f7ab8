/* One run at a time on a device, whichever thread asks. Private to runtime/.
 *
 * In:   the flag of a device.
 * Out:  whether the caller now has the device, until it gives it back.
 * Next: run.c claims for a run, session.c gives back.
 *
 * C99 has no atomic exchange. GCC and Clang have it as a builtin, and say in a macro whether the processor does it without a library;
 * where it does not (ARMv6-M), and for other compilers, the flag is an ordinary one: starts must then come from one thread at a time.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_CLAIM_H
#define LDS_CLAIM_H

#include <stdint.h>

/* Whether the flag was clear; it is set afterwards. */
static inline int lds_claim(uint32_t *flag) {
#ifdef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_4
  return __atomic_exchange_n(flag, 1u, __ATOMIC_ACQUIRE) == 0u;
#else
  const uint32_t before = *flag;
  *flag = 1u;
  return before == 0u;
#endif
}

/* What was done to the device before is seen by whoever claims it next. */
static inline void lds_release(uint32_t *flag) {
#ifdef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_4
  __atomic_store_n(flag, 0u, __ATOMIC_RELEASE);
#else
  *flag = 0u;
#endif
}

/* A word that one thread posts and another one fetches: what was written before is seen by whoever fetches it. 0: there is none. */
static inline void lds_post(uint32_t *word, uint32_t value) {
#ifdef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_4
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
#else
  *word = value;
#endif
}

static inline uint32_t lds_posted(const uint32_t *word) {
#ifdef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_4
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#else
  return *word;
#endif
}

static inline uint32_t lds_fetch(uint32_t *word) {
#ifdef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_4
  return __atomic_exchange_n(word, 0u, __ATOMIC_ACQ_REL);
#else
  const uint32_t value = *word;
  *word = 0;
  return value;
#endif
}

#endif /* LDS_CLAIM_H */
