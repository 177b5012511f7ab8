/* Host operators on caches of a decoder, whose places are written once and never moved.
 *
 * In:   operands and parameters that lds_row_step_check accepted, places that lds_row_step_ready did.
 * Out:  rows in the cache; what a row's queries find there. No sum of floats depends on the number of rows.
 * Next: nothing.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "operators_rows.h"

/* groups, size */
void lds_keep_rows(const lds_operand *t, const int32_t *p) {
  const size_t groups = (size_t)p[0], run = (size_t)p[1] * lds_element_bytes(t[2].tensor.dtype);
  const size_t places = t[2].tensor.size_bytes / (groups * run);
  const size_t begin = (size_t)lds_u32(t[1].data), rows = (size_t)lds_u32(t[1].data + 4);
  size_t row, group;
  for (row = 0; row < rows; ++row) {
    for (group = 0; group < groups; ++group) {
      memcpy(t[2].data + (group * places + begin + row) * run, t[0].data + (row * groups + group) * run, run);
    }
  }
}

/* The caches of one group, and the places that a row sees. */
typedef struct seen {
  const uint8_t *keys, *key_scales, *values, *value_scales;
  size_t count, size;
} seen;

enum { LDS_PIECE = 64 };

/* The sum of products of a query and a key, in lanes. */
static float score(const uint8_t *query, const uint8_t *key, size_t size) {
  float lane[LDS_LANES] = {0};
  size_t k, j;
  for (k = 0; k + LDS_LANES <= size; k += LDS_LANES) {
    for (j = 0; j < LDS_LANES; ++j) lane[j] += lds_get_float(query, k + j) * (float)(int8_t)key[k + j];
  }
  for (j = 0; k + j < size; ++j) lane[j] += lds_get_float(query, k + j) * (float)(int8_t)key[k + j];
  return lds_sum_of_lanes(lane);
}

/* exp(score - largest) of each place, and their sum; then times the scale of the place's value. */
static float weigh(const uint8_t *query, const seen *s, float factor, uint8_t *restrict weight) {
  const uint8_t *key_scales = s->key_scales, *value_scales = s->value_scales;
  const size_t count = s->count;
  float most, lane[LDS_LANES] = {0};
  size_t k, j;
  for (k = 0; k < count; ++k) {
    lds_put_float(weight, k, score(query, s->keys + k * s->size, s->size) * lds_get_float(key_scales, k) * factor);
  }
  most = lds_get_float(weight, 0);
  for (k = 1; k < count; ++k) most = lds_get_float(weight, k) > most ? lds_get_float(weight, k) : most;
  for (k = 0; k < count; ++k) lds_put_float(weight, k, lds_row_exp(lds_get_float(weight, k) - most));
  for (k = 0; k + LDS_LANES <= count; k += LDS_LANES) {
    for (j = 0; j < LDS_LANES; ++j) lane[j] += lds_get_float(weight, k + j);
  }
  for (j = 0; k + j < count; ++j) lane[j] += lds_get_float(weight, k + j);
  for (k = 0; k < count; ++k) lds_put_float(weight, k, lds_get_float(weight, k) * lds_get_float(value_scales, k));
  return lds_sum_of_lanes(lane);
}

/* Sums of values by weight, place after place, over the weights' sum. */
static void mix(const uint8_t *weight, const seen *s, float total, uint8_t *y) {
  size_t at, k, j;
  for (at = 0; at < s->size; at += LDS_PIECE) {
    const size_t width = s->size - at < LDS_PIECE ? s->size - at : LDS_PIECE;
    float sum[LDS_PIECE] = {0};
    for (k = 0; k < s->count; ++k) {
      const uint8_t *value = s->values + k * s->size + at;
      const float by = lds_get_float(weight, k);
      if (width == LDS_PIECE) {
        for (j = 0; j < LDS_PIECE; ++j) sum[j] += by * (float)(int8_t)value[j];
      } else {
        for (j = 0; j < width; ++j) sum[j] += by * (float)(int8_t)value[j];
      }
    }
    for (j = 0; j < width; ++j) lds_put_float(y, at + j, sum[j] / total);
  }
}

/* heads, groups, size, window, factor; operands: queries, place, keys, their scales, values, their scales -> y, scratch memory */
void lds_attention(const lds_operand *t, const int32_t *p) {
  const size_t heads = (size_t)p[0], share = heads / (size_t)p[1], size = (size_t)p[2], window = (size_t)p[3];
  const size_t places = t[3].tensor.size_bytes / sizeof(float) / (size_t)p[1];
  const size_t rows = t[6].tensor.size_bytes / sizeof(float) / (heads * size);
  const size_t begin = (size_t)lds_u32(t[1].data), valid = (size_t)lds_u32(t[1].data + 4);
  size_t row, head;
  memset(t[6].data, 0, t[6].tensor.size_bytes);
  for (row = 0; row < rows && row < valid; ++row) {
    const size_t end = begin + row + 1u, first = window != 0 && end > window ? end - window : 0;
    for (head = 0; head < heads; ++head) {
      const size_t base = head / share * places + first, at = (row * heads + head) * size * sizeof(float);
      seen s;
      float total;
      s.keys = t[2].data + base * size;
      s.key_scales = t[3].data + base * sizeof(float);
      s.values = t[4].data + base * size;
      s.value_scales = t[5].data + base * sizeof(float);
      s.count = end - first;
      s.size = size;
      total = weigh(t[0].data + at, &s, lds_f32((uint32_t)p[4]), t[7].data);
      mix(t[7].data, &s, total, t[6].data + at);
    }
  }
}
