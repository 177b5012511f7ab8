/* What rules of host steps have in common. Private to runtime/.
 *
 * In:   an opened model, a step of it.
 * Out:  its operands and parameters, of the numbers that its operator has, apart in memory (R19, R21).
 * Next: steps.c and steps_real.c hold them against each operator's own rule (R20).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_STEPS_H
#define LDS_STEPS_H

#include "format.h"

/* What may overlap in memory: nothing; input 0 and the output, where they are one tensor; inputs among each other. */
enum { LDS_APART, LDS_IN_PLACE, LDS_SHARED_INPUTS };

/* is_signed: parameters that may be negative, as bits. */
typedef struct lds_step_shape {
  uint8_t inputs, outputs, parameters, overlap;
  uint16_t is_signed;
} lds_step_shape;

/* Whether a step has that shape; then t[] and p[] are filled. */
int lds_step_read(const lds_model *model, const lds_step *step, const lds_step_shape *shape, lds_tensor *t, int32_t *p);

/* Whether value = first * factors[0] * factors[1] ..., none of them negative, value at least 1; the product may be larger than any
 * integer, and a factor of 0 makes it 0. */
static inline int lds_is_product(uint32_t value, uint32_t first, const int32_t *factors, unsigned count) {
  uint64_t product = first;
  unsigned k;
  for (k = 0; k < count && product <= value; ++k) product *= (uint32_t)factors[k];
  return product == value;
}

/* Whether elements [offset + sum (extent - 1) * stride] stay in `elements`. The product of the extents has 32 bits, so that their sum
 * has little more, and times a stride of 31 bits fits 64. */
static inline int lds_reaches_inside(uint32_t offset, const int32_t *extent, const int32_t *stride, uint32_t elements) {
  uint64_t last = offset;
  unsigned k;
  for (k = 0; k < LDS_RANK; ++k) last += (uint64_t)(uint32_t)(extent[k] - 1) * (uint32_t)stride[k];
  return last < elements;
}

#endif /* LDS_STEPS_H */
