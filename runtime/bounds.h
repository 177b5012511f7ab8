/* The arithmetic that every bound rests on, with contracts that Frama-C proves. Private to runtime/.
 *
 * In:   numbers from a file or an instruction: any.
 * Out:  whether something lies inside something, exactly as in the integers of mathematics: nothing here overflows.
 * Next: open.c, steps.c and validate.c decide with it. tests/c/test_proofs.py runs the proofs.
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

/* How many numbers can be the first of `extent` within `total`: those below the result, and no others. */
/*@ requires extent >= 1;
    assigns \nothing;
    ensures \result <= total;
    ensures \forall integer first; first >= 0 ==> (first < \result <==> first + extent <= total); */
static inline uint32_t lds_places(uint32_t total, uint64_t extent) { return extent <= total ? total - (uint32_t)extent + 1u : 0u; }

/* Tiles from the first of a strided block of rows to its last. */
/*@ requires y_size >= 1 && y_size <= 0xFFFF && x_size >= 1 && x_size <= 0xFFFF && x_stride <= 0xFFFF;
    assigns \nothing;
    ensures \result == (y_size - 1) * x_stride + x_size;
    ensures \result >= 1; */
static inline uint32_t lds_rows_extent(uint32_t y_size, uint32_t x_stride, uint32_t x_size) {
  /*@ assert (y_size - 1) * x_stride <= 0xFFFE * 0xFFFF; */
  return (y_size - 1u) * x_stride + x_size;
}

/* Tiles of a packed block of rows, pads included. */
/*@ requires rows >= 1 && rows <= 0x1001D && width >= 1 && width <= 0x1001D;
    assigns \nothing;
    ensures \result == rows * width;
    ensures \result >= 1; */
static inline uint64_t lds_area(uint32_t rows, uint32_t width) {
  /*@ assert 1 <= rows * width <= 0x1001D * 0x1001D; */
  return (uint64_t)rows * width;
}

/* What `count` of x_size stand for, each being so many: groups of weights. */
/*@ requires count >= 1 && count <= 0x1001D * 0x1001D && each >= 1 && each <= 9;
    assigns \nothing;
    ensures \result == count * each;
    ensures \result >= 1; */
static inline uint64_t lds_items(uint64_t count, uint32_t each) {
  /*@ assert 1 <= count * each <= 9 * 0x1001D * 0x1001D; */
  return count * each;
}

/* Tiles from the first that two nested loops reach to the last, `more` behind that included. */
/*@ requires iter_out >= 1 && iter_out <= 0x3FFF && iter_in >= 1 && iter_in <= 0x3FFF && out <= 0x7FFF && in <= 0x7FFF;
    requires more <= 2;
    assigns \nothing;
    ensures \result == (iter_out - 1) * out + (iter_in - 1) * in + more + 1;
    ensures \result >= 1; */
static inline uint32_t lds_loops_extent(uint32_t iter_out, uint32_t out, uint32_t iter_in, uint32_t in, uint32_t more) {
  const uint32_t outer = (iter_out - 1u) * out, inner = (iter_in - 1u) * in;
  /*@ assert (iter_out - 1) * out <= 0x3FFE * 0x7FFF; */
  /*@ assert outer == (iter_out - 1) * out; */
  /*@ assert (iter_in - 1) * in <= 0x3FFE * 0x7FFF; */
  /*@ assert inner == (iter_in - 1) * in; */
  return outer + inner + more + 1u;
}

#endif /* LDS_BOUNDS_H */
