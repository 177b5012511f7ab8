/* Open an artifact: check every rule of FORMAT.md but those of host steps and of relocations.
 *
 * In:   the bytes of a file, hostile until checked.
 * Out:  an lds_model that points into them.
 * Next: model.c reads its tables; session.c runs it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

static uint64_t memory_bytes(const lds_tensor *t) {
  uint32_t factors[LDS_RANK], count = t->rank, k;
  uint64_t bytes = lds_element_bytes(t->dtype);
  memcpy(factors, t->dims, sizeof factors);
  if (t->layout == LDS_BLOCKED) {
    count = LDS_RANK; /* the four dims, the two blocks */
    factors[0] = lds_blocks(t->dims[0], t->batch_block);
    factors[3] = lds_blocks(t->dims[3], t->channel_block);
    factors[4] = t->batch_block;
    factors[5] = t->channel_block;
  }
  for (k = 0; k < count; ++k) bytes = lds_limited_product(bytes, factors[k]);
  return bytes;
}

static int region_is_sound(const lds_model *model, uint32_t index) {
  const lds_region r = lds_model_region(model, index);
  const uint32_t reserved = lds_u32(lds_section_entry(model, LDS_REGION_TABLE, index) + 28);
  const int first = r.kind == LDS_REGION_STATE && r.data_size_bytes == r.size_bytes; /* the initial value of a state */
  if (r.kind > LDS_REGION_STATE || r.flags > 3u || reserved != 0 || !lds_model_is_string(model, r.name)) return 0;
  if ((r.kind == LDS_REGION_CONSTANTS || r.kind == LDS_REGION_INPUT) && (r.flags & LDS_DMA_DEVICE_WRITES) != 0) return 0;
  if (r.kind == LDS_REGION_HOST && r.flags != 0) return 0;
  if (r.size_bytes == 0 || r.align_bytes == 0 || r.align_bytes > LDS_DMA_MAX_ALIGN || (r.align_bytes & (r.align_bytes - 1u)) != 0) return 0;
  if (r.flags != 0 && r.align_bytes < LDS_DEVICE_ALIGN) return 0;
  if (r.data_size_bytes != (r.kind == LDS_REGION_CONSTANTS ? r.size_bytes : 0u) && !first) return 0;
  return lds_inside(r.data_offset, r.data_size_bytes, model->section[LDS_DATA].count);
}

static int dims_are_sound(const lds_tensor *t) {
  unsigned k;
  for (k = 0; k < LDS_RANK; ++k) {
    if ((t->dims[k] != 0) != (k < t->rank)) return 0;
  }
  if (t->layout == LDS_BLOCKED) return t->rank == 4 && t->batch_block != 0 && t->channel_block != 0;
  return t->batch_block == 0 && t->channel_block == 0;
}

static int tensor_is_sound(const lds_model *model, uint32_t index) {
  const uint8_t *p = lds_section_entry(model, LDS_TENSOR_TABLE, index);
  lds_tensor t;
  lds_region r;
  if (!lds_model_is_string(model, lds_u32(p)) || (lds_u32(p + 52) | lds_u32(p + 56) | lds_u32(p + 60)) != 0) return 0;
  lds_model_tensor(model, index, &t);
  if (t.dtype >= LDS_ELEMENT_TYPES || t.layout > LDS_BLOCKED || t.rank > LDS_RANK) return 0;
  if (t.region >= model->section[LDS_REGION_TABLE].count) return 0;
  if (!dims_are_sound(&t) || memory_bytes(&t) != t.size_bytes) return 0;
  r = lds_model_region(model, t.region);
  if (t.offset_bytes % (r.flags != 0 ? (uint32_t)LDS_DEVICE_ALIGN : lds_element_bytes(t.dtype)) != 0) return 0;
  return lds_inside(t.offset_bytes, t.size_bytes, r.size_bytes);
}

static int port_is_sound(const lds_model *model, int section, uint32_t index) {
  const uint32_t tensor = lds_u32(lds_section_entry(model, section, index));
  lds_tensor t;
  if (tensor >= model->section[LDS_TENSOR_TABLE].count) return 0;
  lds_model_tensor(model, tensor, &t);
  if (t.layout != LDS_ROW_MAJOR || t.rank == 0 || t.dims[0] % model->samples != 0) return 0;
  return section != LDS_INPUTS || lds_model_region(model, t.region).kind != LDS_REGION_CONSTANTS;
}

/* The words and the code of a step follow those of the steps before it, so that no data is read for two steps. */
static int steps_are_sound(const lds_model *model) {
  uint32_t words = 0, code = 0, k; /* the least at which the next may begin */
  for (k = 0; k < model->section[LDS_STEPS].count; ++k) {
    const lds_step s = lds_model_step(model, k);
    if (!lds_model_is_string(model, s.name) || s.first < words || !lds_inside(s.first, s.count, model->section[LDS_WORDS].count)) return 0;
    if (s.kind == LDS_STEP_PROGRAM && !lds_program_is_sound(model, k, &code)) return 0;
    words = s.first + s.count;
  }
  return 1;
}

static int device_is_sound(const lds_model *model, uint32_t index) {
  const uint8_t *p = lds_section_entry(model, LDS_DEVICES, index);
  const int configured = lds_hashed_bytes(p + 8) == LDS_CONFIGURATION_BYTES;
  return lds_model_is_string(model, lds_u32(p)) && lds_model_is_string(model, lds_u32(p + 4)) && (!configured || p[8] == 1);
}

static int sections_are_sound(lds_model *model) {
  unsigned k;
  for (k = 0; k < LDS_SECTIONS; ++k) {
    const uint8_t *p = model->bytes + LDS_SECTIONS_AT + 8 * k;
    const uint32_t offset = lds_u32(p), size = lds_u32(p + 4);
    if (offset % 16u != 0 || offset < LDS_HEADER_BYTES || !lds_inside(offset, size, model->size_bytes)) return 0;
    model->section[k].bytes = model->bytes + offset;
    model->section[k].count = lds_entries(size, lds_entry_bytes[k]);
    if (model->section[k].count * lds_entry_bytes[k] != size) return 0;
  }
  return 1;
}

static int strings_are_sound(const lds_model *model) {
  const lds_table s = model->section[LDS_STRINGS];
  return s.count != 0 && s.bytes[0] == 0 && s.bytes[s.count - 1u] == 0 && lds_model_is_string(model, lds_u32(model->bytes + 20));
}

static int input_is_sound(const lds_model *model, uint32_t index) { return port_is_sound(model, LDS_INPUTS, index); }

static int output_is_sound(const lds_model *model, uint32_t index) { return port_is_sound(model, LDS_OUTPUTS, index); }

/* The order matters: a table may refer only to tables that were checked before it. */
static int tables_are_sound(const lds_model *model) {
  static const struct {
    uint8_t section;
    int (*is_sound)(const lds_model *model, uint32_t index);
  } tables[] = {
      {LDS_REGION_TABLE, region_is_sound}, {LDS_TENSOR_TABLE, tensor_is_sound}, {LDS_INPUTS, input_is_sound},
      {LDS_OUTPUTS, output_is_sound},      {LDS_DEVICES, device_is_sound},
  };
  uint32_t table, k;
  for (table = 0; table < sizeof tables / sizeof tables[0]; ++table) {
    for (k = 0; k < model->section[tables[table].section].count; ++k) {
      if (!tables[table].is_sound(model, k)) return 0;
    }
  }
  return 1;
}

static int open_header(lds_model *model, const uint8_t *p, size_t size_bytes) {
  uint32_t version;
  if (size_bytes < LDS_HEADER_BYTES) return LDS_ERR_TRUNCATED;
  if (lds_u32(p) != 0x4D53444Cu) return LDS_ERR_MAGIC; /* "LDSM" */
  version = lds_u32(p + 4);
  if (version < LDS_FORMAT_OLDEST || version > LDS_FORMAT_VERSION) return LDS_ERR_VERSION;
  if (lds_u32(p + 8) != size_bytes) return LDS_ERR_TRUNCATED;
  if (lds_u32(p + LDS_CHECKSUM_AT) != lds_crc32(p + 16, size_bytes - 16u)) return LDS_ERR_CHECKSUM;
  model->bytes = p;
  model->size_bytes = (uint32_t)size_bytes;
  model->samples = lds_u32(p + 16);
  if (!lds_has_entries(p) && (lds_u32(p + LDS_ENTRIES_AT) | lds_u32(p + LDS_FIRST_STEPS_AT)) != 0) return LDS_ERR_FORMAT; /* R13 */
  return model->samples != 0 ? LDS_OK : LDS_ERR_FORMAT;
}

int lds_model_open(lds_model *model, const void *bytes, size_t size_bytes) {
  int status;
  if (model == NULL || bytes == NULL) return LDS_ERR_ARGUMENT;
  status = open_header(model, (const uint8_t *)bytes, size_bytes);
  if (status != LDS_OK) return status;
  if (!sections_are_sound(model) || !strings_are_sound(model)) return LDS_ERR_FORMAT;
  if (model->section[LDS_REGION_TABLE].count > LDS_REGIONS || model->section[LDS_DEVICES].count == 0) return LDS_ERR_FORMAT;
  return tables_are_sound(model) && steps_are_sound(model) ? LDS_OK : LDS_ERR_FORMAT;
}
