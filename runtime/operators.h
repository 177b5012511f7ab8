/* Parts of host operators. Private to runtime/.
 *
 * In:   checked operands and parameters (steps.c).
 * Out:  declarations; reading and writing floats at any alignment.
 * Next: operators.c and operators_real.c contain the tables.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_OPERATOR_PARTS_H
#define LDS_OPERATOR_PARTS_H

#include "format.h"
#include "lds_operators.h"

void lds_pack_bfloat16(const lds_operand *t, const int32_t *p);
void lds_unpack_bfloat16(const lds_operand *t, const int32_t *p);

static inline float lds_get_float(const uint8_t *data, size_t index) {
  float f;
  memcpy(&f, data + index * sizeof f, sizeof f);
  return f;
}

static inline void lds_put_float(uint8_t *data, size_t index, float f) { memcpy(data + index * sizeof f, &f, sizeof f); }

#endif /* LDS_OPERATOR_PARTS_H */
