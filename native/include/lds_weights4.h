/* Weights of 4 bits: numbers, multipliers and minima that give int8 weights exactly.
 *
 * In:   groups of weight tiles of int8.
 * Out:  their bytes as LOAD of memory WGT_4BIT reads them, where all of them are such.
 * Next: weights4.cc; vta/region/pack_weights.py calls it, and expands the bytes again to prove them.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_WEIGHTS4_H
#define LDS_WEIGHTS4_H

#ifndef LDS_CDEF
#include <stdint.h>
#endif

#include "lds_native.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  LDS_WEIGHTS4_OK = 0,
  LDS_WEIGHTS4_BAD_ARGUMENT = 1, /* block is none of 4, 8, 16, 32 */
  LDS_WEIGHTS4_NONE = 2          /* some output of some group is no such weights */
};

/* tiles: (groups, 32 / block, block, block). bytes: (groups, 18 * block), as vta/isa/packed_weights.py says; undefined where the result is
 * not LDS_WEIGHTS4_OK. A group is packed where z + (q * m + 4 >> 3) gives its weights without leaving int8. */
LDS_NATIVE_EXPORT int lds_weights4(const int8_t *tiles, uint32_t groups, uint32_t block, uint8_t *bytes);

#ifdef __cplusplus
}
#endif

#endif /* LDS_WEIGHTS4_H */
