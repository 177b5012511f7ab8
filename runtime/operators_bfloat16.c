/* Packing of float32 into the tiles of a device that computes on bfloat16, and back.
 *
 * In:   operands and parameters that lds_step_check accepted.
 * Out:  the output's bytes, as defined in FORMAT.md: the nearest bfloat16 of each element, ties to even; or its exact float32.
 * Next: operators.c calls them for tensors of these types.
 *
 * Rounding works on bits, so that no mode of a processor changes it; every NaN becomes 0x7FC0.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "operators.h"

static uint32_t nearest(const uint8_t *from) {
  uint32_t bits;
  memcpy(&bits, from, sizeof bits);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0u;
  return (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
}

/* The index of an element in the tiles. */
static uint8_t *element(const lds_operand *o, uint32_t n, uint32_t y, uint32_t x, uint32_t ch) {
  const lds_tensor *t = &o->tensor;
  const size_t blocks = lds_blocks(t->dims[3], t->channel_block);
  const size_t tile = ((n / t->batch_block * blocks + ch / t->channel_block) * t->dims[1] + y) * t->dims[2] + x;
  return o->data + 2u * ((tile * t->batch_block + n % t->batch_block) * t->channel_block + ch % t->channel_block);
}

/* Element `ch` of the window of output pixel (oy, ox): row by row, channels innermost; zero outside the image. */
static uint32_t of_window(const uint8_t *image, const int32_t *p, uint32_t oy, uint32_t ox, uint32_t ch) {
  const uint32_t channels = (uint32_t)p[2], pixel = ch / channels, width = (uint32_t)p[4];
  const int64_t y = (int64_t)oy * p[5] - p[7] + pixel / width, x = (int64_t)ox * p[6] - p[8] + pixel % width;
  const size_t h = (size_t)p[0], w = (size_t)p[1], c = ch % channels;
  size_t at;
  if ((uint64_t)y >= h || (uint64_t)x >= w) return 0; /* negative coordinates become the largest numbers */
  at = (size_t)y * w + (size_t)x;
  return nearest(image + 4u * (p[10] ? c * h * w + at : at * channels + c));
}

/* h, w, c, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, pad_value, nchw */
void lds_pack_bfloat16(const lds_operand *t, const int32_t *p) {
  const lds_tensor *out = &t[1].tensor;
  const uint32_t rows = lds_blocks(out->dims[0], out->batch_block) * out->batch_block;
  const uint32_t channels = lds_blocks(out->dims[3], out->channel_block) * out->channel_block;
  const uint32_t elements = out->dims[1] * out->dims[2] * channels;
  const size_t image_bytes = 4u * (size_t)p[0] * (size_t)p[1] * (size_t)p[2];
  uint32_t n, k;
  for (n = 0; n < rows; ++n) {
    for (k = 0; k < elements; ++k) {
      const uint32_t ch = k % channels, pixel = k / channels, y = pixel / out->dims[2], x = pixel % out->dims[2];
      uint8_t *to = element(&t[1], n, y, x, ch);
      uint32_t bits = 0;
      if (n < out->dims[0] && ch < out->dims[3]) bits = of_window(t[0].data + n * image_bytes, p, y, x, ch);
      to[0] = (uint8_t)(bits & 0xFFu);
      to[1] = (uint8_t)(bits >> 8);
    }
  }
}

/* nchw */
void lds_unpack_bfloat16(const lds_operand *t, const int32_t *p) {
  const lds_tensor *in = &t[0].tensor;
  const uint32_t pixels = in->dims[1] * in->dims[2], channels = in->dims[3];
  uint8_t *to = t[1].data;
  uint32_t n, k;
  for (n = 0; n < in->dims[0]; ++n) {
    for (k = 0; k < pixels * channels; ++k, to += 4) {
      const uint32_t ch = p[0] ? k / pixels : k % channels, pixel = p[0] ? k % pixels : k / channels;
      const uint32_t bits = lds_u16(element(&t[0], n, pixel / in->dims[2], pixel % in->dims[2], ch)) << 16;
      memcpy(to, &bits, sizeof bits);
    }
  }
}
