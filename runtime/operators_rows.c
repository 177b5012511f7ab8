/* Host operators on rows of a decoder: norms, rotations of places, scales that are found when the network runs, gates.
 *
 * In:   operands and parameters that lds_row_step_check accepted, and lds_row_step_ready where they depend on a place.
 * Out:  the output's bytes, as defined in FORMAT.md. No sum of floats depends on the number of rows.
 * Next: operators_cache.c reads and writes what earlier rows left.
 *
 * Sums have eight lanes, which compilers make vectors of without being allowed to reorder anything. Memory may have any alignment.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "operators_rows.h"

#include "real_math.h"

/* depth, epsilon */
void lds_rms_norm(const lds_operand *t, const int32_t *p) {
  const size_t depth = (size_t)p[0], rows = t[2].tensor.size_bytes / sizeof(float) / depth;
  const float epsilon = lds_f32((uint32_t)p[1]);
  const uint8_t *weights = t[1].data;
  size_t row, k;
  for (row = 0; row < rows; ++row) {
    const uint8_t *x = t[0].data + row * depth * sizeof(float);
    uint8_t *y = t[2].data + row * depth * sizeof(float);
    const float mean = lds_sum_of_products(x, x, depth) / (float)depth;
    const float factor = 1.0f / (float)lds_sqrt((double)(mean + epsilon));
    for (k = 0; k < depth; ++k) lds_put_float(y, k, lds_get_float(x, k) * factor * lds_get_float(weights, k));
  }
}

/* A pair of elements, turned by an angle. */
static void turn(uint8_t *y, const uint8_t *x, size_t first, size_t second, float cosine, float sine) {
  const float a = lds_get_float(x, first), b = lds_get_float(x, second);
  lds_put_float(y, first, a * cosine - b * sine);
  lds_put_float(y, second, a * sine + b * cosine);
}

/* heads, size, turned, neighbours. The rows beyond the valid ones take angles of the last place at most. */
void lds_rotate_places(const lds_operand *t, const int32_t *p) {
  const size_t heads = (size_t)p[0], size = (size_t)p[1], turned = (size_t)p[2], half = turned / 2u;
  const size_t rows = t[3].tensor.size_bytes / sizeof(float) / (heads * size);
  const size_t places = t[2].tensor.size_bytes / sizeof(float) / turned, begin = (size_t)lds_u32(t[1].data);
  size_t k, i;
  for (k = 0; k < rows * heads; ++k) {
    const size_t place = begin + k / heads < places ? begin + k / heads : places - 1u;
    const uint8_t *angles = t[2].data + place * turned * sizeof(float), *x = t[0].data + k * size * sizeof(float);
    uint8_t *y = t[3].data + k * size * sizeof(float);
    for (i = 0; i < half; ++i) {
      const float cosine = lds_get_float(angles, i), sine = lds_get_float(angles, half + i);
      if (p[3]) {
        turn(y, x, 2u * i, 2u * i + 1u, cosine, sine);
      } else {
        turn(y, x, i, half + i, cosine, sine);
      }
    }
    memcpy(y + turned * sizeof(float), x + turned * sizeof(float), (size - turned) * sizeof(float));
  }
}

/* --- scales that are found when the network runs ------------------------------------------------------------------------------- */
enum { LDS_TURN = 64 };

/* x times the Hadamard matrix of 64 by 64, over 8: six times pairs that are 32 apart become neighbours, after which every element is back
 * at its place. */
static void hadamard(const uint8_t *x, uint8_t *y) {
  float a[LDS_TURN], b[LDS_TURN];
  int pass, k;
  memcpy(a, x, sizeof a);
  for (pass = 0; pass < 6; ++pass) {
    for (k = 0; k < LDS_TURN / 2; ++k) {
      b[2 * k] = a[k] + a[k + LDS_TURN / 2];
      b[2 * k + 1] = a[k] - a[k + LDS_TURN / 2];
    }
    memcpy(a, b, sizeof a);
  }
  for (k = 0; k < LDS_TURN; ++k) a[k] *= 0.125f;
  memcpy(y, a, sizeof a);
}

/* The magnitude's bits: they are in the order of the numbers, with infinity and what is no number above all. */
static uint32_t magnitude(const uint8_t *x, size_t index) {
  uint32_t bits;
  memcpy(&bits, x + index * sizeof bits, sizeof bits);
  return bits & 0x7FFFFFFFu;
}

static int32_t most_of(const uint8_t *x, size_t count, int32_t most) {
  size_t k;
  for (k = 0; k < count; ++k) {
    const int32_t next = (int32_t)magnitude(x, k);
    most = next > most ? next : most;
  }
  return most;
}

/* depth, rotate */
void lds_row_scales(const lds_operand *t, const int32_t *p) {
  const size_t depth = (size_t)p[0], rows = t[1].tensor.size_bytes / sizeof(float);
  size_t row, k;
  for (row = 0; row < rows; ++row) {
    const uint8_t *x = t[0].data + row * depth * sizeof(float);
    int32_t most = 0;
    float scale;
    if (p[1]) {
      for (k = 0; k < depth; k += LDS_TURN) {
        uint8_t turned[LDS_TURN * sizeof(float)];
        hadamard(x + k * sizeof(float), turned);
        most = most_of(turned, LDS_TURN, most);
      }
    } else {
      most = most_of(x, depth, 0);
    }
    scale = lds_f32((uint32_t)most) / 127.0f;
    if (most > 0x7F800000) scale = lds_f32(0x7FC00000u);
    if (scale == 0.0f) scale = 1.0f;
    lds_put_float(t[1].data, row, scale);
  }
}

/* Half to even, at most 127 on either side; adding 1.5 * 2^23 rounds. */
static void quantize(const uint8_t *x, size_t count, float scale, uint8_t *y) {
  size_t k;
  for (k = 0; k < count; ++k) {
    const float ratio = lds_get_float(x, k) / scale;
    uint32_t bits, size;
    float inside;
    memcpy(&bits, &ratio, sizeof bits);
    size = bits & 0x7FFFFFFFu;
    size = size > 0x42FE0000u ? 0x42FE0000u : size; /* 127 */
    bits = (bits & 0x80000000u) | size;
    memcpy(&inside, &bits, sizeof inside);
    inside += 12582912.0f;
    memcpy(&bits, &inside, sizeof bits);
    y[k] = (uint8_t)(bits - 0x4B400000u);
  }
}

/* depth, rotate */
void lds_quantize_rows(const lds_operand *t, const int32_t *p) {
  const size_t depth = (size_t)p[0], rows = t[2].tensor.size_bytes / depth;
  size_t row, k;
  for (row = 0; row < rows; ++row) {
    const uint8_t *x = t[0].data + row * depth * sizeof(float);
    uint8_t *y = t[2].data + row * depth;
    const float scale = lds_get_float(t[1].data, row);
    if (magnitude(t[1].data, row) >= 0x7F800000u) {
      memset(y, 0, depth);
    } else if (p[1]) {
      for (k = 0; k < depth; k += LDS_TURN) {
        uint8_t turned[LDS_TURN * sizeof(float)];
        hadamard(x + k * sizeof(float), turned);
        quantize(turned, LDS_TURN, scale, y + k);
      }
    } else {
      quantize(x, depth, scale, y);
    }
  }
}

/* --- sums as real numbers ------------------------------------------------------------------------------------------------------ */
static void from_sums(const uint8_t *x, size_t count, float scale, const uint8_t *channel, uint8_t *y) {
  size_t k;
  for (k = 0; k < count; ++k) {
    int32_t sum;
    memcpy(&sum, x + k * sizeof sum, sizeof sum);
    lds_put_float(y, k, (float)sum * scale * lds_get_float(channel, k));
  }
}

static void from_bytes(const uint8_t *x, size_t count, float scale, const uint8_t *channel, uint8_t *y) {
  size_t k;
  for (k = 0; k < count; ++k) lds_put_float(y, k, (float)(x[k] < 128 ? x[k] : x[k] - 256) * scale * lds_get_float(channel, k));
}

/* Planes of bytes that are `apart` bytes apart, the lowest first. */
static void from_planes(const uint8_t *x, size_t apart, int planes, size_t count, float scale, const uint8_t *channel, uint8_t *y) {
  const uint8_t *second = x + apart, *third = second + apart, *fourth = third + (planes == 4 ? apart : 0);
  const uint32_t top = planes == 4 ? 0x80000000u : 0x800000u;
  size_t k;
  for (k = 0; k < count; ++k) {
    const uint32_t low = (uint32_t)x[k] | (uint32_t)second[k] << 8 | (uint32_t)third[k] << 16;
    const uint32_t bits = ((planes == 4 ? low | (uint32_t)fourth[k] << 24 : low) ^ top) - top;
    int32_t sum;
    memcpy(&sum, &bits, sizeof sum);
    lds_put_float(y, k, (float)sum * scale * lds_get_float(channel, k));
  }
}

/* channels, planes */
void lds_rescale_rows(const lds_operand *t, const int32_t *p) {
  const size_t channels = (size_t)p[0], rows = t[1].tensor.size_bytes / sizeof(float), whole = t[0].tensor.size_bytes / rows;
  size_t row;
  for (row = 0; row < rows; ++row) {
    const uint8_t *x = t[0].data + row * whole;
    uint8_t *y = t[3].data + row * channels * sizeof(float);
    const float scale = lds_get_float(t[1].data, row);
    if (p[1] == 0) {
      from_sums(x, channels, scale, t[2].data, y);
    } else if (p[1] == 1) {
      from_bytes(x, channels, scale, t[2].data, y);
    } else {
      from_planes(x, whole / (size_t)p[1], p[1], channels, scale, t[2].data, y);
    }
  }
}

/* --- gates --------------------------------------------------------------------------------------------------------------------- */
static void silu(const uint8_t *gate, const uint8_t *x, uint8_t *restrict y, size_t count) {
  size_t k;
  for (k = 0; k < count; ++k) {
    const float a = lds_get_float(gate, k);
    lds_put_float(y, k, a / (1.0f + lds_row_exp(-a)) * lds_get_float(x, k));
  }
}

static void gelu(const uint8_t *gate, const uint8_t *x, uint8_t *restrict y, size_t count) {
  size_t k;
  for (k = 0; k < count; ++k) {
    const float a = lds_get_float(gate, k), inner = 1.5957691216f * (a + 0.044715f * (a * a * a));
    lds_put_float(y, k, a / (1.0f + lds_row_exp(-inner)) * lds_get_float(x, k));
  }
}

/* function: 0 SiLU, 1 GELU by tanh */
void lds_gate(const lds_operand *t, const int32_t *p) {
  (p[0] == 0 ? silu : gelu)(t[0].data, t[1].data, t[2].data, t[2].tensor.size_bytes / sizeof(float));
}
