/* Host operators that move bytes: copy, fill, pack, unpack, lookup, argmax; and the table of operators except those on real numbers.
 *
 * In:   operands and parameters that lds_step_check accepted.
 * Out:  the output's bytes, as defined in FORMAT.md.
 * Next: operators_bfloat16.c, operators_float.c and operators_softmax.c have the rest, operators_real.c those on real numbers.
 *
 * Memory may have any alignment: elements wider than a byte are moved with memcpy.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "operators.h"

/* in_offset, out_offset, extent[6], in_stride[6], out_stride[6] */
void lds_copy(const lds_operand *t, const int32_t *p) {
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
        if (size == 1u) { /* much the most frequent */
          t[1].data[to] = t[0].data[from];
        } else {
          memcpy(t[1].data + to * size, t[0].data + from * size, size);
        }
        from += (size_t)in_stride[5];
        to += (size_t)out_stride[5];
      }
    }
    for (axis = LDS_RANK - 2; axis >= 0 && ++index[axis] == extent[axis]; --axis) index[axis] = 0;
  }
}

void lds_fill(const lds_operand *t, const int32_t *p) { memset(t[0].data, p[0], t[0].tensor.size_bytes); }

/* Where a pixel's channel 0 stands in a blocked tensor, and the bytes between its channel blocks. */
typedef struct pixel {
  uint8_t *at;
  size_t block_stride;
} pixel;

static pixel pixel_of(const lds_operand *o, uint32_t n, uint32_t y, uint32_t x) {
  const lds_tensor *t = &o->tensor;
  const size_t lanes = (size_t)t->channel_block * lds_element_bytes(t->dtype), cell = t->batch_block * lanes,
               image = (size_t)t->dims[1] * t->dims[2];
  const size_t blocks = lds_blocks(t->dims[3], t->channel_block);
  pixel result;
  result.block_stride = image * cell;
  result.at =
      o->data + n / t->batch_block * blocks * result.block_stride + ((size_t)y * t->dims[2] + x) * cell + n % t->batch_block * lanes;
  return result;
}

/* A row-major image of bytes, whose channels are interleaved or in planes. */
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

/* The next lanes, at most `count` and within the block; *run is their number. */
static uint8_t *next_lanes(writer *w, size_t count, size_t *run) {
  uint8_t *at = w->to.at + w->lane;
  *run = count < w->lanes - w->lane ? count : w->lanes - w->lane;
  w->lane += (uint32_t)*run;
  if (w->lane == w->lanes) {
    w->lane = 0;
    w->to.at += w->to.block_stride;
  }
  return at;
}

static void put_pad(writer *w, size_t count, int32_t value) {
  size_t run;
  for (; count > 0; count -= run) {
    uint8_t *at = next_lanes(w, count, &run);
    memset(at, value, run);
  }
}

static void put(writer *w, const uint8_t *from, size_t stride, size_t count, uint8_t flip) {
  size_t run, k;
  for (; count > 0; count -= run, from += run * stride) {
    uint8_t *at = next_lanes(w, count, &run);
    if (stride == 1 && flip == 0) {
      memcpy(at, from, run);
    } else {
      for (k = 0; k < run; ++k) at[k] = (uint8_t)(from[k * stride] ^ flip);
    }
  }
}

/* One row of a window, from column x on: taps outside the image are pad. Taps of contiguous channels are one run. */
static void pack_row(writer *out, const image *in, const int32_t *p, int64_t y, int64_t x, uint8_t flip) {
  const int64_t kernel = p[4], first = x < 0 ? (x < -kernel ? kernel : -x) : 0;
  const int64_t limit = p[1] - x, last = limit < first ? first : limit > kernel ? kernel : limit;
  const size_t channels = (size_t)p[2], taps = (size_t)(last - first);
  const uint8_t *from = taps > 0 ? in->data + (size_t)y * in->y_stride + (size_t)(x + first) * in->x_stride : in->data;
  size_t tap;
  put_pad(out, (size_t)first * channels, p[9]);
  if (in->c_stride == 1) {
    put(out, from, 1, taps * channels, flip);
  } else {
    for (tap = 0; tap < taps; ++tap) put(out, from + tap * in->x_stride, in->c_stride, channels, flip);
  }
  put_pad(out, (size_t)(kernel - last) * channels, p[9]);
}

/* One output pixel: the rows of its window one after the other, then the padding of the last block. */
static void pack_pixel(writer *out, const image *in, const int32_t *p, int64_t y, int64_t x, uint8_t flip) {
  int32_t ky;
  for (ky = 0; ky < p[3]; ++ky) {
    if (y + ky >= 0 && y + ky < p[0]) {
      pack_row(out, in, p, y + ky, x, flip);
    } else {
      put_pad(out, (size_t)p[4] * (size_t)p[2], p[9]);
    }
  }
  if (out->lane != 0) put_pad(out, out->lanes - out->lane, p[9]);
}

/* h, w, c, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, pad_value, nchw */
void lds_pack(const lds_operand *t, const int32_t *p) {
  const lds_tensor *out = &t[1].tensor;
  const uint32_t padded = lds_blocks(out->dims[0], out->batch_block) * out->batch_block;
  const size_t padded_channels = (size_t)lds_blocks(out->dims[3], out->channel_block) * out->channel_block;
  const uint8_t flip = t[0].tensor.dtype == LDS_UINT8 ? 0x80u : 0u;
  uint32_t n, y, x;
  if (out->dtype == LDS_BFLOAT16) {
    lds_pack_bfloat16(t, p);
    return;
  }
  for (n = 0; n < padded; ++n) {
    const image in = image_of(&t[0], n < out->dims[0] ? n : 0u, (uint32_t)p[0], (uint32_t)p[1], (uint32_t)p[2], p[10]);
    for (y = 0; y < out->dims[1]; ++y) {
      for (x = 0; x < out->dims[2]; ++x) {
        writer w;
        w.to = pixel_of(&t[1], n, y, x);
        w.lane = 0;
        w.lanes = out->channel_block;
        if (n < out->dims[0]) {
          pack_pixel(&w, &in, p, (int64_t)y * p[5] - p[7], (int64_t)x * p[6] - p[8], flip);
        } else {
          put_pad(&w, padded_channels, p[9]);
        }
      }
    }
  }
}

/* The channels of one pixel, block by block. */
static void get(uint8_t *to, size_t stride, pixel from, uint32_t lanes, size_t count, uint8_t flip) {
  size_t run, k;
  for (; count > 0; count -= run, to += run * stride, from.at += from.block_stride) {
    run = count < lanes ? count : lanes;
    if (stride == 1 && flip == 0) {
      memcpy(to, from.at, run);
    } else {
      for (k = 0; k < run; ++k) to[k * stride] = (uint8_t)(from.at[k] ^ flip);
    }
  }
}

/* nchw */
void lds_unpack(const lds_operand *t, const int32_t *p) {
  const lds_tensor *in = &t[0].tensor;
  const uint8_t flip = t[1].tensor.dtype == LDS_UINT8 ? 0x80u : 0u;
  const uint32_t size = lds_element_bytes(in->dtype), bytes = in->dims[3] * size, lanes = in->channel_block * size;
  uint32_t n, y, x;
  if (in->dtype == LDS_BFLOAT16) {
    lds_unpack_bfloat16(t, p);
    return;
  }
  for (n = 0; n < in->dims[0]; ++n) {
    const image out = image_of(&t[1], n, in->dims[1], in->dims[2], bytes, p[0]);
    for (y = 0; y < in->dims[1]; ++y) {
      for (x = 0; x < in->dims[2]; ++x) {
        const pixel from = pixel_of(&t[0], n, y, x);
        get(out.data + y * out.y_stride + x * out.x_stride, out.c_stride, from, lanes, bytes, flip);
      }
    }
  }
}

void lds_lookup(const lds_operand *t, const int32_t *p) {
  const size_t size = lds_element_bytes(t[2].tensor.dtype), elements = t[0].tensor.size_bytes;
  size_t k;
  (void)p;
  if (size == 1) { /* nearly all tables: no call for each element */
    for (k = 0; k < elements; ++k) t[2].data[k] = t[1].data[t[0].data[k]];
    return;
  }
  for (k = 0; k < elements; ++k) memcpy(t[2].data + k * size, t[1].data + t[0].data[k] * size, size);
}

/* depth */
void lds_argmax(const lds_operand *t, const int32_t *p) {
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

const lds_operator_set lds_operators = {
    lds_step_check,
    {NULL, lds_copy, lds_fill, lds_pack, lds_unpack, lds_quantize, lds_dequantize, lds_lookup, lds_softmax_int8, lds_softmax_float32,
     lds_argmax},
    NULL,
};
