/* Sizes of memory, and addresses in it, with contracts that Frama-C proves for a size_t of 32 bits. Private to runtime/.
 *
 * In:   sizes from a file: any; the caller's memory; bus addresses of buffers.
 * Out:  sums that stop at SIZE_MAX instead of wrapping; pieces that lie inside the caller's memory.
 * Next: session.c computes every size with it. bounds.h does the same for indices, which have 32 bits everywhere.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_SIZES_H
#define LDS_SIZES_H

#include <stddef.h>
#include <stdint.h>

/* Sizes in a file have 32 bits, and are converted to size_t everywhere: a narrower one is no target. */
typedef char lds_size_t_has_32_bits[SIZE_MAX >= UINT32_MAX ? 1 : -1];

/* a + b; SIZE_MAX, which no memory has, when it is as much or more. */
/*@ assigns \nothing;
    ensures a + b <= SIZE_MAX ==> \result == a + b;
    ensures a + b > SIZE_MAX ==> \result == SIZE_MAX; */
static inline size_t lds_size_sum(size_t a, size_t b) { return b <= SIZE_MAX - a ? a + b : SIZE_MAX; }

/* The larger. */
/*@ assigns \nothing;
    ensures \result >= a && \result >= b;
    ensures \result == a || \result == b; */
static inline size_t lds_size_max(size_t a, size_t b) { return a > b ? a : b; }

/* Bytes up to the next multiple of align_bytes. */
/*@ requires align_bytes >= 1;
    assigns \nothing;
    ensures \result < align_bytes;
    ensures (address + \result) % align_bytes == 0; */
static inline size_t lds_padding(uintptr_t address, uint32_t align_bytes) {
  const uint32_t rest = (uint32_t)(address % align_bytes);
  /*@ assert address == (address / align_bytes) * align_bytes + rest; */
  /*@ assert address + (align_bytes - rest) == (address / align_bytes + 1) * align_bytes; */
  /*@ assert ((address / align_bytes + 1) * align_bytes) % align_bytes == 0; */
  return rest == 0 ? 0u : align_bytes - rest;
}

/* What one piece may take, wherever the memory begins: `used` before it, its padding, itself. */
/*@ requires align_bytes >= 1;
    assigns \nothing;
    ensures used + (align_bytes - 1) + size_bytes <= SIZE_MAX ==> \result == used + (align_bytes - 1) + size_bytes;
    ensures used + (align_bytes - 1) + size_bytes > SIZE_MAX ==> \result == SIZE_MAX; */
static inline size_t lds_size_with(size_t used, uint32_t align_bytes, size_t size_bytes) {
  return lds_size_sum(lds_size_sum(used, align_bytes - 1u), size_bytes);
}

/* Memory of the caller's that is not used yet. */
typedef struct lds_memory {
  uint8_t *at;
  size_t left;
} lds_memory;

/* The next piece of it, which it then no longer has; NULL when there is too little. */
/*@ requires \valid(m) && align_bytes >= 1;
    requires m->left > 0 ==> \valid(m->at + (0 .. m->left - 1));
    requires \separated(m, m->at + (0 .. m->left - 1));
    assigns m->at, m->left;
    ensures \result == \null ==> m->at == \old(m->at) && m->left == \old(m->left);
    ensures \result != \null ==> m->at == \result + size_bytes;
    ensures \result != \null ==> m->at + m->left == \old(m->at + m->left);
    ensures \result != \null && size_bytes > 0 ==> \valid(\result + (0 .. size_bytes - 1));
    ensures m->left > 0 ==> \valid(m->at + (0 .. m->left - 1)); */
static inline uint8_t *lds_piece(lds_memory *m, size_t size_bytes, uint32_t align_bytes) {
  const size_t pad = lds_padding((uintptr_t)m->at, align_bytes);
  uint8_t *piece;
  if (pad > m->left || size_bytes > m->left - pad) return NULL;
  piece = m->at + pad;
  m->at = piece + size_bytes;
  m->left -= pad + size_bytes;
  return piece;
}

/* Bytes from `first` to the next multiple of a line behind `count` bytes, at most to `limit`. */
/*@ requires line >= 1 && first + count <= limit;
    assigns \nothing;
    ensures count <= \result <= limit - first;
    ensures \result < limit - first ==> (first + \result) % line == 0; */
static inline size_t lds_whole_lines(size_t first, size_t count, size_t limit, uint32_t line) {
  const size_t pad = lds_padding(first + count, line);
  return pad <= limit - first - count ? count + pad : limit - first;
}

/* [bus, bus + size) ends at address `last` or before, and does not wrap. */
/*@ assigns \nothing;
    ensures \result != 0 <==> (size_bytes == 0 || bus + size_bytes - 1 <= last); */
static inline int lds_bus_inside(uint64_t bus, uint64_t size_bytes, uint64_t last) {
  return size_bytes == 0 || (bus <= last && size_bytes - 1u <= last - bus);
}

#endif /* LDS_SIZES_H */
