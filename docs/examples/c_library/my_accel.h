/* The library that the accelerator's maker delivers: layers as functions.
 *
 * In:   int8 tensors, channels last; int32 bias, multiplier and shift for each output channel.
 * Out:  int8 tensors, as TFLite's reference kernels compute them.
 * Next: my_accel.c, a functional model; on a board, the maker's driver with the same functions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MY_ACCEL_H
#define MY_ACCEL_H

#include <stdint.h>

typedef struct {
  int32_t n, h, w, c;          /* input */
  int32_t out_h, out_w, out_c; /* output */
  int32_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
  int32_t zero_in, zero_out, low, high;
} my_accel_conv2d_t;

/* y = clamp(rescale(bias + sum (x - zero_in) * w) + zero_out, low, high).
 * x: n x h x w x c. weights: out_c x kernel_h x kernel_w x c. y: n x out_h x out_w x out_c.
 * rescale(v) = v * multiplier * 2^(shift - 31), rounded twice as gemmlowp does; shift [-31, 30]. */
void my_accel_conv2d(const my_accel_conv2d_t *a, const int8_t *x, const int8_t *weights, const int32_t *bias, const int32_t *multiplier,
                     const int32_t *shift, int8_t *y);

#endif
