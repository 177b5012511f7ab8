/* The arithmetic that every bound rests on, with contracts that Frama-C proves. Private to runtime/.
 *
 * In:   numbers from a file or an instruction: any.
 * Out:  whether something lies inside something, exactly as in the integers of mathematics: nothing here overflows.
 * Next: model.c, steps.c and validate.c decide with it. tests/test_proofs.py runs the proofs.
 *
 * A contract is a comment that begins with @: `requires` is what a caller must keep, `ensures` what it gets. Operators in
 * contracts work on unbounded integers.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_BOUNDS_H
#define LDS_BOUNDS_H

#include <stdint.h>

/* [first, first + count) lies in [0, limit). */
/*@ assigns \nothing;
    ensures \result != 0 <==> first + count <= limit; */
static inline int lds_inside(uint32_t first, uint32_t count, uint32_t limit) { return first <= limit && count <= limit - first; }

/* Whole entries in `size` bytes. */
/*@ requires entry_bytes > 0;
    assigns \nothing;
    ensures \result * entry_bytes <= size < (\result + 1) * entry_bytes; */
static inline uint32_t lds_entries(uint32_t size, uint32_t entry_bytes) { return size / entry_bytes; }

/* a * b, or 2^32 when it is more: sizes of tensors stay below. */
/*@ requires a <= 0x100000000;
    assigns \nothing;
    ensures \result <= 0x100000000;
    ensures a * b < 0x100000000 ==> \result == a * b;
    ensures a * b >= 0x100000000 ==> \result == 0x100000000; */
static inline uint64_t lds_limited_product(uint64_t a, uint32_t b) {
  const uint64_t limit = 0x100000000u;
  /*@ assert a * b <= 0x100000000 * 0xFFFFFFFF; */
  return a * b > limit ? limit : a * b;
}

/* Blocks that `size` elements fill, the last perhaps in part. */
/*@ requires block > 0;
    assigns \nothing;
    ensures \result * block >= size;
    ensures size > 0 ==> (\result - 1) * block < size; */
static inline uint32_t lds_blocks(uint32_t size, uint32_t block) { return size / block + (size % block != 0); }

/* Of a strided block of rows: the first tile behind its last. */
/*@ requires y_size >= 1 && y_size <= 0xFFFF && x_size <= 0xFFFF && x_stride <= 0xFFFF;
    assigns \nothing;
    ensures \result == base + (y_size - 1) * x_stride + x_size;
    ensures \result < 0x200000000; */
static inline uint64_t lds_rows_end(uint32_t base, uint32_t y_size, uint32_t x_stride, uint32_t x_size) {
  /*@ assert (y_size - 1) * x_stride <= 0xFFFE * 0xFFFF; */
  return (uint64_t)base + (uint64_t)(y_size - 1u) * x_stride + x_size;
}

/* `end` tiles lie in `size_bytes`. */
/*@ requires end < 0x200000000 && tile_bytes <= 0x8000;
    assigns \nothing;
    ensures \result != 0 <==> end * tile_bytes <= size_bytes; */
static inline int lds_tiles_inside(uint64_t end, uint32_t tile_bytes, uint32_t size_bytes) {
  /*@ assert end * tile_bytes <= 0x200000000 * 0x8000; */
  return end * tile_bytes <= size_bytes;
}

/* A packed block of rows, pads included, from `base` on lies in `depth` tiles. */
/*@ requires base <= 0xFFFF && rows <= 0x1001D && width <= 0x1001D && depth <= 0x10000;
    assigns \nothing;
    ensures \result != 0 <==> base + rows * width <= depth; */
static inline int lds_area_inside(uint32_t base, uint32_t rows, uint32_t width, uint32_t depth) {
  /*@ assert rows * width <= 0x1001D * 0x1001D; */
  return base + (uint64_t)rows * width <= depth;
}

/* base + (iter_out - 1) * out + (iter_in - 1) * in + more < depth. */
/*@ requires iter_out >= 1 && iter_out <= 0x3FFF && iter_in >= 1 && iter_in <= 0x3FFF && out <= 0x7FFF && in <= 0x7FFF;
    requires base <= 0x7FFF && more <= 2;
    assigns \nothing;
    ensures \result != 0 <==> base + (iter_out - 1) * out + (iter_in - 1) * in + more < depth; */
static inline int lds_loops_inside(uint32_t base, uint32_t iter_out, uint32_t out, uint32_t iter_in, uint32_t in, uint32_t more,
                                   uint32_t depth) {
  const uint32_t outer = (iter_out - 1u) * out, inner = (iter_in - 1u) * in;
  /*@ assert (iter_out - 1) * out <= 0x3FFE * 0x7FFF; */
  /*@ assert outer == (iter_out - 1) * out; */
  /*@ assert (iter_in - 1) * in <= 0x3FFE * 0x7FFF; */
  /*@ assert inner == (iter_in - 1) * in; */
  return base + outer + inner + more < depth;
}

#endif /* LDS_BOUNDS_H */
