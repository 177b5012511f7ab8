/* Host operators that move bytes: copy, fill, pack, unpack, lookup, argmax; and the table of all.
 *
 * In:   operands and parameters that lds_step_check accepted.
 * Out:  the output's bytes, as FORMAT.md says.
 * Next: operators_float.c, operators_softmax.c hold the rest.
 *
 * Memory may be at any alignment: elements wider than a byte are moved with memcpy.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "operators.h"

/* in_offset, out_offset, extent[6], in_stride[6], out_stride[6] */
static void copy(const lds_operand *t, const int32_t *p) {
  const size_t size = lds_element_bytes(t[0].tensor.dtype);
  const int32_t *extent = p + 2, *in_stride = p + 8, *out_stride = p + 14;
  const size_t columns = (size_t)extent[5];
  const int runs = in_stride[5] == 1 && out_stride[5] == 1;
  int32_t index[LDS_RANK] = {0};
  int axis = 0;
  while (axis >= 0) {
    size_t from = (size_t)p[0], to = (size_t)p[1], column;
    for (axis = 0; axis < LDS_RANK - 1; ++axis) {
      from += (size_t)index[axis] * (size_t)in_stride[axis];
      to += (size_t)index[axis] * (size_t)out_stride[axis];
    }
    if (runs) {
      memcpy(t[1].data + to * size, t[0].data + from * size, columns * size);
    } else {
      for (column = 0; column < columns; ++column) {
        memcpy(t[1].data + (to + column * (size_t)out_stride[5]) * size, t[0].data + (from + column * (size_t)in_stride[5]) * size, size);
      }
    }
    for (axis = LDS_RANK - 2; axis >= 0 && ++index[axis] == extent[axis]; --axis) index[axis] = 0;
  }
}

static void fill(const lds_operand *t, const int32_t *p) { memset(t[0].data, p[0], t[0].tensor.size_bytes); }

/* The place of a pixel's channel 0 in a blocked tensor, and how far its channel blocks are apart. */
typedef struct pixel {
  uint8_t *at;
  size_t block_stride;
} pixel;

static pixel pixel_of(const lds_operand *o, uint32_t n, uint32_t y, uint32_t x) {
  const lds_tensor *t = &o->tensor;
  const size_t cell = (size_t)t->batch_block * t->channel_block, image = (size_t)t->dims[1] * t->dims[2];
  const size_t blocks = (t->dims[3] + t->channel_block - 1u) / t->channel_block;
  pixel result;
  result.block_stride = image * cell;
  result.at = o->data + n / t->batch_block * blocks * result.block_stride + ((size_t)y * t->dims[2] + x) * cell +
              (size_t)(n % t->batch_block) * t->channel_block;
  return result;
}

/* A row-major image of bytes, whose channels stand next to each other or in planes. */
typedef struct image {
  uint8_t *data;
  size_t y_stride, x_stride, c_stride;
} image;

static image image_of(const lds_operand *o, uint32_t n, uint32_t h, uint32_t w, uint32_t c, int nchw) {
  image result;
  result.data = o->data + (size_t)n * h * w * c;
  result.c_stride = nchw ? (size_t)h * w : 1u;
  result.x_stride = nchw ? 1u : c;
  result.y_stride = w * result.x_stride;
  return result;
}

typedef struct writer {
  pixel to;
  uint32_t lane, lanes;
} writer;

static void put(writer *w, uint8_t value) {
  w->to.at[w->lane] = value;
  if (++w->lane == w->lanes) {
    w->lane = 0;
    w->to.at += w->to.block_stride;
  }
}

/* One output pixel: the taps of its window one after the other, then what fills up the last block. Image NULL: all pad. */
static void pack_pixel(writer *out, const image *in, const int32_t *p, int64_t y, int64_t x, uint8_t flip) {
  int32_t ky, kx, ch;
  for (ky = 0; ky < p[3]; ++ky) {
    for (kx = 0; kx < p[4]; ++kx) {
      const int inside = in != NULL && y + ky >= 0 && y + ky < p[0] && x + kx >= 0 && x + kx < p[1];
      const uint8_t *from = inside ? in->data + (size_t)(y + ky) * in->y_stride + (size_t)(x + kx) * in->x_stride : NULL;
      for (ch = 0; ch < p[2]; ++ch) put(out, inside ? (uint8_t)(from[(size_t)ch * in->c_stride] ^ flip) : (uint8_t)p[9]);
    }
  }
  while (out->lane != 0) put(out, (uint8_t)p[9]);
}

/* h, w, c, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, pad_value, nchw */
static void pack(const lds_operand *t, const int32_t *p) {
  const lds_tensor *out = &t[1].tensor;
  const uint32_t padded = (out->dims[0] + out->batch_block - 1u) / out->batch_block * out->batch_block;
  const uint8_t flip = t[0].tensor.dtype == LDS_UINT8 ? 0x80u : 0u;
  uint32_t n, y, x;
  for (n = 0; n < padded; ++n) {
    const image in = image_of(&t[0], n < out->dims[0] ? n : 0u, (uint32_t)p[0], (uint32_t)p[1], (uint32_t)p[2], p[10]);
    for (y = 0; y < out->dims[1]; ++y) {
      for (x = 0; x < out->dims[2]; ++x) {
        writer w;
        w.to = pixel_of(&t[1], n, y, x);
        w.lane = 0;
        w.lanes = out->channel_block;
        pack_pixel(&w, n < out->dims[0] ? &in : NULL, p, (int64_t)y * p[5] - p[7], (int64_t)x * p[6] - p[8], flip);
      }
    }
  }
}

/* nchw */
static void unpack(const lds_operand *t, const int32_t *p) {
  const lds_tensor *in = &t[0].tensor;
  const uint8_t flip = t[1].tensor.dtype == LDS_UINT8 ? 0x80u : 0u;
  uint32_t n, y, x, ch;
  for (n = 0; n < in->dims[0]; ++n) {
    const image out = image_of(&t[1], n, in->dims[1], in->dims[2], in->dims[3], p[0]);
    for (y = 0; y < in->dims[1]; ++y) {
      for (x = 0; x < in->dims[2]; ++x) {
        pixel from = pixel_of(&t[0], n, y, x);
        uint8_t *to = out.data + y * out.y_stride + x * out.x_stride;
        uint32_t lane = 0;
        for (ch = 0; ch < in->dims[3]; ++ch) {
          to[(size_t)ch * out.c_stride] = (uint8_t)(from.at[lane] ^ flip);
          if (++lane == in->channel_block) {
            lane = 0;
            from.at += from.block_stride;
          }
        }
      }
    }
  }
}

static void lookup(const lds_operand *t, const int32_t *p) {
  const size_t size = lds_element_bytes(t[2].tensor.dtype), elements = t[0].tensor.size_bytes;
  size_t k;
  (void)p;
  for (k = 0; k < elements; ++k) memcpy(t[2].data + k * size, t[1].data + t[0].data[k] * size, size);
}

/* depth */
static void argmax(const lds_operand *t, const int32_t *p) {
  const size_t size = lds_element_bytes(t[1].tensor.dtype), rows = t[1].tensor.size_bytes / size, depth = (size_t)p[0];
  const uint8_t flip = t[0].tensor.dtype == LDS_INT8 ? 0x80u : 0u;
  size_t row, k;
  for (row = 0; row < rows; ++row) {
    const uint8_t *x = t[0].data + row * depth;
    int64_t best = 0;
    for (k = 1; k < depth; ++k) {
      if ((x[k] ^ flip) > (x[best] ^ flip)) best = (int64_t)k;
    }
    if (size == 4) {
      const int32_t narrow = (int32_t)best;
      memcpy(t[1].data + row * size, &narrow, size);
    } else {
      memcpy(t[1].data + row * size, &best, size);
    }
  }
}

const lds_operator lds_operators[LDS_OPERATORS] = {
    NULL, copy, fill, pack, unpack, lds_quantize, lds_dequantize, lookup, lds_softmax_int8, lds_softmax_float32, argmax,
};
