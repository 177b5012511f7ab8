/* What the vector engine's instructions do, in C: the same as in vector_engine.py, faster.
 *
 * In:   fields and memories, as vector_engine_meaning.h (generated) says.
 * Out:  changed memories.
 * Next: `-meaning=c` makes the simulator call these.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "vector_engine_meaning.h"

#include <string.h>

enum { ZERO_A, ZERO_B, ZERO_Y, SCALE_A, SCALE_B = SCALE_A + 2, SCALE_Y = SCALE_B + 2, LOW = SCALE_Y + 2, HIGH, PRE_SHIFT = 20 };

void vector_engine_mean_set(vector_engine_state *state, const vector_engine_set_fields *i) {
  state->numbers[i->number] = (int32_t)i->value;
}

void vector_engine_mean_load(vector_engine_state *state, const vector_engine_load_fields *i) {
  const uint64_t size = i->size + 1u;
  const uint8_t *from = vector_engine_read(state, state->pointers[i->pointer] + 1024u * i->chunk, size);
  if (from != NULL) memcpy(state->vectors + i->vector * VECTOR_ENGINE_VECTORS_LANES, from, size);
}

void vector_engine_mean_store(vector_engine_state *state, const vector_engine_store_fields *i) {
  const uint64_t size = i->size + 1u;
  uint8_t *to = vector_engine_write(state, state->pointers[i->pointer] + 1024u * i->chunk, size);
  if (to != NULL) memcpy(to, state->vectors + i->vector * VECTOR_ENGINE_VECTORS_LANES, size);
}

/* gemmlowp's: a left shift that wraps, the upper half of the product, a right shift, each rounded. scale: multiplier, shift. */
static int64_t scaled(int64_t value, const int32_t *scale) {
  const int shift = scale[1] < -31 ? -31 : scale[1] > 30 ? 30 : scale[1];
  const int32_t x = (int32_t)(uint32_t)((uint64_t)value << (shift > 0 ? shift : 0));
  const int64_t product = (int64_t)x * scale[0];
  const int64_t high = (product + (product >= 0 ? INT64_C(1) << 30 : 1 - (INT64_C(1) << 30))) / (INT64_C(1) << 31);
  const int64_t y = high > INT32_MAX ? INT32_MAX : high;
  const int64_t mask = (INT64_C(1) << (shift < 0 ? -shift : 0)) - 1;
  return (y - (y & mask)) / (mask + 1) + ((y & mask) > (mask >> 1) + (y < 0));
}

void vector_engine_mean_add(vector_engine_state *state, const vector_engine_add_fields *i) {
  const int32_t *n = state->numbers;
  int8_t *vectors = state->vectors;
  uint64_t k;
  for (k = 0; k <= i->size; ++k) {
    const int64_t a = (int64_t)vectors[i->a * VECTOR_ENGINE_VECTORS_LANES + k] - n[ZERO_A];
    const int64_t b = (int64_t)vectors[i->b * VECTOR_ENGINE_VECTORS_LANES + k] - n[ZERO_B];
    const int64_t sum = scaled(a * (1 << PRE_SHIFT), n + SCALE_A) + scaled(b * (1 << PRE_SHIFT), n + SCALE_B);
    const int64_t y = scaled(sum, n + SCALE_Y) + n[ZERO_Y];
    vectors[i->target * VECTOR_ENGINE_VECTORS_LANES + k] = (int8_t)(y < n[LOW] ? n[LOW] : y > n[HIGH] ? n[HIGH] : y);
  }
}
