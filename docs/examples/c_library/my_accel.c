/* The functional model of my_accel: what the silicon computes, loop by loop.
 *
 * In:   my_accel.h.
 * Out:  the same integers as the accelerator.
 * Next: the back end compiles it together with the calls that it generates. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "my_accel.h"

static int32_t wrap(int64_t v) {
  uint32_t low = (uint32_t)((uint64_t)v & 0xffffffffu);
  return low < 0x80000000u ? (int32_t)low : (int32_t)((int64_t)low - 0x100000000);
}

static int32_t rescale(int32_t v, int32_t multiplier, int32_t shift) {
  int64_t left = shift > 0 ? wrap((int64_t)((uint64_t)(int64_t)v << shift)) : v;
  int64_t product = left * multiplier;
  int64_t high = (product + (product >= 0 ? (1 << 30) : 1 - (1 << 30))) / ((int64_t)1 << 31);
  int64_t divisor = (int64_t)1 << (shift < 0 ? -shift : 0);
  int64_t half = divisor / 2;
  if (high > INT32_MAX) {
    high = INT32_MAX; /* INT32_MIN * INT32_MIN */
  }
  return (int32_t)(high >= 0 ? (high + half) / divisor : -((-high + half) / divisor)); /* ties away from zero */
}

static int64_t window(const my_accel_conv2d_t *a, const int8_t *x, const int8_t *w, int32_t oy, int32_t ox) {
  int64_t sum = 0;
  for (int32_t ky = 0; ky < a->kernel_h; ky++) {
    for (int32_t kx = 0; kx < a->kernel_w; kx++) {
      int32_t iy = oy * a->stride_h + ky - a->pad_top;
      int32_t ix = ox * a->stride_w + kx - a->pad_left;
      if (iy < 0 || iy >= a->h || ix < 0 || ix >= a->w) {
        continue; /* padding reads the zero point, and adds nothing */
      }
      for (int32_t c = 0; c < a->c; c++) {
        sum += (x[(iy * a->w + ix) * a->c + c] - a->zero_in) * w[(ky * a->kernel_w + kx) * a->c + c];
      }
    }
  }
  return sum;
}

void my_accel_conv2d(const my_accel_conv2d_t *a, const int8_t *x, const int8_t *weights, const int32_t *bias, const int32_t *multiplier,
                     const int32_t *shift, int8_t *y) {
  int32_t image = a->h * a->w * a->c;
  int32_t filter = a->kernel_h * a->kernel_w * a->c;
  for (int32_t n = 0; n < a->n; n++) {
    for (int32_t p = 0; p < a->out_h * a->out_w; p++) {
      for (int32_t o = 0; o < a->out_c; o++) {
        int64_t sum = window(a, x + n * image, weights + o * filter, p / a->out_w, p % a->out_w);
        int64_t v = (int64_t)rescale(wrap(sum + bias[o]), multiplier[o], shift[o]) + a->zero_out;
        *y++ = (int8_t)(v < a->low ? a->low : v > a->high ? a->high : v);
      }
    }
  }
}
