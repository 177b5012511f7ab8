/* FORMAT.md as C: places of fields, and the readers' primitives. Private to runtime/.
 *
 * In:   bytes of a file, at any alignment.
 * Out:  numbers; typed records.
 * Next: open.c checks the tables, steps.c the host steps.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_FORMAT_H
#define LDS_FORMAT_H

#include <string.h>

#include "bounds.h"
#include "loadstone.h"

enum { LDS_STRINGS, LDS_REGION_TABLE, LDS_TENSOR_TABLE, LDS_INPUTS, LDS_OUTPUTS, LDS_STEPS, LDS_WORDS, LDS_DEVICES, LDS_CODE, LDS_DATA };

/* The newest, the first that has entries, and the oldest that is read (FORMAT.md, Versions). */
enum { LDS_FORMAT_VERSION = 8, LDS_FORMAT_ENTRIES = 7, LDS_FORMAT_OLDEST = 5 };

enum {
  LDS_HEADER_BYTES = 112,
  LDS_ENTRIES_AT = 24,
  LDS_FIRST_STEPS_AT = 28,
  LDS_SECTIONS_AT = 32,
  LDS_CHECKSUM_AT = 12,
  LDS_DEVICE_ALIGN = 64
};

enum { LDS_REGION_CONSTANTS, LDS_REGION_ARENA, LDS_REGION_INPUT, LDS_REGION_OUTPUT, LDS_REGION_HOST, LDS_REGION_STATE };

enum { LDS_ROW_MAJOR, LDS_BLOCKED };

/* A step's operator. */
enum {
  LDS_STEP_PROGRAM, /* program.h */
  LDS_STEP_COPY,
  LDS_STEP_FILL,
  LDS_STEP_PACK,
  LDS_STEP_UNPACK,
  LDS_STEP_QUANTIZE,
  LDS_STEP_DEQUANTIZE,
  LDS_STEP_LOOKUP,
  LDS_STEP_SOFTMAX_INT8,
  LDS_STEP_SOFTMAX_FLOAT32,
  LDS_STEP_ARGMAX,
  LDS_STEP_EXP_FLOAT32,
  LDS_STEP_LOG_FLOAT32,
  LDS_STEP_SQRT_FLOAT32,
  LDS_STEP_RSQRT_FLOAT32,
  LDS_STEP_TANH_FLOAT32,
  LDS_STEP_SIGMOID_FLOAT32,
  LDS_STEP_ERF_FLOAT32,
  LDS_STEP_ADD_FLOAT32,
  LDS_STEP_SUBTRACT_FLOAT32,
  LDS_STEP_MULTIPLY_FLOAT32,
  LDS_STEP_DIVIDE_FLOAT32,
  LDS_STEP_MAXIMUM_FLOAT32,
  LDS_STEP_MINIMUM_FLOAT32,
  LDS_STEP_POWER_FLOAT32,
  LDS_STEP_SUM_FLOAT32,
  LDS_STEP_MATMUL_FLOAT32,
  LDS_STEP_GATHER,
  LDS_STEP_RMS_NORM,
  LDS_STEP_ROTATE_PLACES,
  LDS_STEP_ROW_SCALES,
  LDS_STEP_QUANTIZE_ROWS,
  LDS_STEP_RESCALE_ROWS,
  LDS_STEP_KEEP_ROWS,
  LDS_STEP_ATTENTION,
  LDS_STEP_GATE,
  LDS_STEP_EXTERNAL = 255
};

enum { LDS_MAX_OPERANDS = 8, LDS_MAX_PARAMETERS = 20 };

typedef struct lds_region {
  uint32_t kind, flags, size_bytes, align_bytes, data_offset, data_size_bytes, name;
} lds_region;

typedef struct lds_step {
  uint32_t kind, inputs, outputs, first, count, name;
} lds_step;

/*@ requires \valid_read(p + (0 .. 1));
    assigns \nothing; */
static inline uint32_t lds_u16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }

/* Where bytes may be loaded at any address, the four loads of a word become one, which a compiler that counts before it joins them does
 * not expect: left to itself it makes calls, which on a Cortex-M55 take 280 bytes more. */
#ifdef __GNUC__
#define LDS_ONE_LOAD __attribute__((always_inline)) static inline
#else
#define LDS_ONE_LOAD static inline
#endif

/*@ requires \valid_read(p + (0 .. 3));
    assigns \nothing; */
LDS_ONE_LOAD uint32_t lds_u32(const uint8_t *p) { return lds_u16(p) | lds_u16(p + 2) << 16; }

/* Two's complement without the implementation-defined conversion. */
/*@ assigns \nothing;
    ensures v <= 0x7FFFFFFF ==> \result == v;
    ensures v > 0x7FFFFFFF ==> \result == v - 0x100000000; */
static inline int32_t lds_i32(uint32_t v) { return v <= INT32_MAX ? (int32_t)v : (int32_t)(v - 0x80000000u) + INT32_MIN; }

/* Whether a header says a table of entries: version 7 always does. */
static inline int lds_has_entries(const uint8_t *header) {
  const uint32_t version = lds_u32(header + 4);
  return version == LDS_FORMAT_ENTRIES || (version > LDS_FORMAT_ENTRIES && lds_u32(header + LDS_ENTRIES_AT) != 0);
}

static inline float lds_f32(uint32_t v) {
  float f;
  memcpy(&f, &v, sizeof f);
  return f;
}

/* As zlib's. */
uint32_t lds_crc32(const uint8_t *p, size_t n);

/* Bytes of an entry of each section, and where an entry begins. */
extern const uint8_t lds_entry_bytes[LDS_SECTIONS];
const uint8_t *lds_section_entry(const lds_model *model, int section, uint32_t index);

/* Whether a text begins at an offset of the strings: R9. */
int lds_model_is_string(const lds_model *model, uint32_t offset);

/* Entries of opened tables: the index is in range. */
lds_region lds_model_region(const lds_model *model, uint32_t index);
lds_step lds_model_step(const lds_model *model, uint32_t index);
void lds_model_tensor(const lds_model *model, uint32_t index, lds_tensor *out);
LDS_ONE_LOAD uint32_t lds_model_word(const lds_model *model, uint32_t index) {
  return lds_u32(model->section[LDS_WORDS].bytes + 4u * index);
}

/* The bytes of a fingerprint over which CONFIG_HASH is a CRC-32: a VTA's configuration, which zeros follow, or all of an instruction
 * table's. */
enum { LDS_CONFIGURATION_BYTES = 20 };
uint32_t lds_hashed_bytes(const uint8_t *fingerprint);

/* How many steps a run has that names no entry: the first one's, which are all where a file has no entries and says 0. */
LDS_ONE_LOAD uint32_t lds_first_steps(const lds_model *model) {
  const uint32_t all = model->section[LDS_STEPS].count, first = lds_u32(model->bytes + LDS_FIRST_STEPS_AT);
  return first - 1u < all ? first : all;
}

/* Product of a tensor's dims: its elements without those that fill up blocks. */
uint32_t lds_tensor_elements(const lds_tensor *t);
uint32_t lds_element_bytes(uint32_t dtype);

#endif /* LDS_FORMAT_H */
