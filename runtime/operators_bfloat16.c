/* Packing of float32 into the tiles of a device that computes on bfloat16, and back.
 *
 * In:   operands and parameters that lds_step_check accepted.
 * Out:  the output's bytes, as FORMAT.md says: the nearest bfloat16 of each element, ties to even; or the float32 that each is.
 * Next: operators.c calls them for tensors of these types.
 *
 * Rounding works on bits: no processor's mode can change it, and whatever is not a number becomes 0x7FC0.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "operators.h"

static uint32_t nearest(const uint8_t *from) {
  uint32_t bits;
  memcpy(&bits, from, sizeof bits);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0u;
  return (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
}

/* Where the next element of a pixel stands: lane after lane, block after block. */
typedef struct cursor {
  uint8_t *at;
  size_t to_next_block;
  uint32_t lane, lanes;
} cursor;

static cursor cursor_of(const lds_operand *o, uint32_t n, uint32_t y, uint32_t x) {
  const lds_tensor *t = &o->tensor;
  const size_t cell = (size_t)t->batch_block * t->channel_block, block = (size_t)t->dims[1] * t->dims[2] * cell;
  const size_t blocks = lds_blocks(t->dims[3], t->channel_block);
  const size_t pixel = ((size_t)y * t->dims[2] + x) * cell + (size_t)(n % t->batch_block) * t->channel_block;
  cursor c;
  c.at = o->data + 2u * (n / t->batch_block * blocks * block + pixel);
  c.to_next_block = 2u * (block - t->channel_block);
  c.lane = 0;
  c.lanes = t->channel_block;
  return c;
}

static void advance(cursor *c) {
  c->at += 2;
  if (++c->lane == c->lanes) {
    c->lane = 0;
    c->at += c->to_next_block;
  }
}

static void put(cursor *c, uint32_t bits) {
  c->at[0] = (uint8_t)(bits & 0xFFu);
  c->at[1] = (uint8_t)(bits >> 8);
  advance(c);
}

/* The elements of one window; rows and columns beside the image are zeros. */
static void pack_window(cursor *to, const lds_operand *from, const int32_t *p, size_t image, int64_t y, int64_t x) {
  const size_t h = (size_t)p[0], w = (size_t)p[1], channels = (size_t)p[2];
  const size_t c_stride = p[10] ? h * w : 1u, x_stride = p[10] ? 1u : channels;
  int64_t ky, kx;
  size_t ch;
  for (ky = y; ky < y + p[3]; ++ky) {
    for (kx = x; kx < x + p[4]; ++kx) {
      const int inside = ky >= 0 && ky < p[0] && kx >= 0 && kx < p[1];
      const size_t first = inside ? image + ((size_t)ky * w + (size_t)kx) * x_stride : 0u;
      for (ch = 0; ch < channels; ++ch) put(to, inside ? nearest(from->data + 4u * (first + ch * c_stride)) : 0u);
    }
  }
}

/* h, w, c, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, pad_value, nchw */
void lds_pack_bfloat16(const lds_operand *t, const int32_t *p) {
  const lds_tensor *out = &t[1].tensor;
  const uint32_t rows = lds_blocks(out->dims[0], out->batch_block) * out->batch_block;
  const uint32_t channels = lds_blocks(out->dims[3], out->channel_block) * out->channel_block;
  const size_t image = (size_t)p[0] * (size_t)p[1] * (size_t)p[2];
  uint32_t n, y, x, ch;
  for (n = 0; n < rows; ++n) {
    for (y = 0; y < out->dims[1]; ++y) {
      for (x = 0; x < out->dims[2]; ++x) {
        cursor to = cursor_of(&t[1], n, y, x);
        const uint32_t filled = n < out->dims[0] ? out->dims[3] : 0u;
        if (filled > 0) pack_window(&to, &t[0], p, n * image, (int64_t)y * p[5] - p[7], (int64_t)x * p[6] - p[8]);
        for (ch = filled; ch < channels; ++ch) put(&to, 0);
      }
    }
  }
}

/* nchw */
void lds_unpack_bfloat16(const lds_operand *t, const int32_t *p) {
  const lds_tensor *in = &t[0].tensor;
  const size_t pixels = (size_t)in->dims[1] * in->dims[2], channels = in->dims[3];
  const size_t c_stride = p[0] ? pixels : 1u, x_stride = p[0] ? 1u : channels;
  uint32_t n, y, x, ch;
  for (n = 0; n < in->dims[0]; ++n) {
    for (y = 0; y < in->dims[1]; ++y) {
      for (x = 0; x < in->dims[2]; ++x) {
        cursor from = cursor_of(&t[0], n, y, x);
        const size_t first = n * pixels * channels + ((size_t)y * in->dims[2] + x) * x_stride;
        for (ch = 0; ch < channels; ++ch) {
          const uint32_t bits = lds_u16(from.at) << 16;
          memcpy(t[1].data + 4u * (first + ch * c_stride), &bits, sizeof bits);
          advance(&from);
        }
      }
    }
  }
}
