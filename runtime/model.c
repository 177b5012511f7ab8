/* The tables of an artifact, read in place.
 *
 * In:   an lds_model whose sections lie inside its file (open.c).
 * Out:  tensors, regions, steps, devices, as structs.
 * Next: open.c and program.c check them; session.c runs them.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

const uint8_t lds_entry_bytes[LDS_SECTIONS] = {1, 32, 64, 4, 4, 16, 4, 40, 1, 1};

/* CRC-32 as zlib's, four bits at a time: 64 bytes of table. */
/*@ requires \valid_read(p + (0 .. n - 1));
    assigns \nothing; */
uint32_t lds_crc32(const uint8_t *p, size_t n) {
  static const uint32_t table[16] = {0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u,
                                     0x4DB26158u, 0x5005713Cu, 0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu,
                                     0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu};
  uint32_t crc = 0xFFFFFFFFu;
  size_t k;
  /*@ loop invariant 0 <= k <= n;
      loop assigns k, crc;
      loop variant n - k; */
  for (k = 0; k < n; ++k) {
    crc ^= p[k];
    crc = crc >> 4 ^ table[crc & 15u];
    crc = crc >> 4 ^ table[crc & 15u];
  }
  return ~crc;
}

const uint8_t *lds_section_entry(const lds_model *model, int section, uint32_t index) {
  return model->section[section].bytes + (size_t)index * lds_entry_bytes[section];
}

int lds_model_is_string(const lds_model *model, uint32_t offset) {
  const lds_table s = model->section[LDS_STRINGS];
  return offset < s.count && (offset == 0 || s.bytes[offset - 1u] == 0);
}

static const char *string_at(const lds_model *model, uint32_t offset) { return (const char *)(model->section[LDS_STRINGS].bytes + offset); }

/* --- tables ------------------------------------------------------------------------------------------------------------------ */
lds_region lds_model_region(const lds_model *model, uint32_t index) {
  const uint8_t *p = lds_section_entry(model, LDS_REGION_TABLE, index);
  lds_region r;
  r.kind = lds_u32(p);
  r.flags = lds_u32(p + 4);
  r.size_bytes = lds_u32(p + 8);
  r.align_bytes = lds_u32(p + 12);
  r.data_offset = lds_u32(p + 16);
  r.data_size_bytes = lds_u32(p + 20);
  r.name = lds_u32(p + 24);
  return r;
}

lds_step lds_model_step(const lds_model *model, uint32_t index) {
  const uint8_t *p = lds_section_entry(model, LDS_STEPS, index);
  lds_step s;
  s.kind = lds_u16(p);
  s.inputs = p[2];
  s.outputs = p[3];
  s.first = lds_u32(p + 4);
  s.count = lds_u32(p + 8);
  s.name = lds_u32(p + 12);
  return s;
}

void lds_model_tensor(const lds_model *model, uint32_t index, lds_tensor *out) {
  const uint8_t *p = lds_section_entry(model, LDS_TENSOR_TABLE, index);
  unsigned k;
  out->name = string_at(model, lds_u32(p));
  out->dtype = p[4];
  out->rank = p[5];
  out->region = p[6];
  out->layout = p[7];
  out->offset_bytes = lds_u32(p + 8);
  out->size_bytes = lds_u32(p + 12);
  out->scale = lds_f32(lds_u32(p + 16));
  out->zero_point = lds_i32(lds_u32(p + 20));
  for (k = 0; k < LDS_RANK; ++k) out->dims[k] = lds_u32(p + 24 + 4 * k);
  out->batch_block = lds_u16(p + 48);
  out->channel_block = lds_u16(p + 50);
}

uint32_t lds_element_bytes(uint32_t dtype) {
  static const uint8_t bytes[] = {1, 1, 2, 4, 8, 4, 2, 1, 2, 2, 4, 8, 8};
  typedef char every_type_has_one[sizeof bytes == LDS_ELEMENT_TYPES ? 1 : -1];
  (void)sizeof(every_type_has_one);
  return bytes[dtype];
}

uint32_t lds_tensor_elements(const lds_tensor *t) {
  uint32_t elements = 1;
  unsigned k;
  for (k = 0; k < t->rank; ++k) elements *= t->dims[k];
  return elements;
}

/* --- devices ------------------------------------------------------------------------------------------------------------------------ */
uint32_t lds_hashed_bytes(const uint8_t *fingerprint) {
  uint32_t k = LDS_FINGERPRINT_BYTES;
  while (k > LDS_CONFIGURATION_BYTES && fingerprint[k - 1u] == 0) --k;
  return k == LDS_CONFIGURATION_BYTES ? k : (uint32_t)LDS_FINGERPRINT_BYTES;
}

const char *lds_model_device(const lds_model *model, uint32_t device) {
  return string_at(model, lds_u32(lds_section_entry(model, LDS_DEVICES, device)));
}

const uint8_t *lds_model_fingerprint(const lds_model *model, uint32_t device) { return lds_section_entry(model, LDS_DEVICES, device) + 8; }

uint32_t lds_model_config_hash(const lds_model *model, uint32_t device) {
  const uint8_t *p = lds_model_fingerprint(model, device);
  return lds_crc32(p, lds_hashed_bytes(p));
}

uint32_t lds_model_device_count(const lds_model *model) { return model->section[LDS_DEVICES].count; }

const char *lds_model_device_attributes(const lds_model *model, uint32_t device) {
  return string_at(model, lds_u32(lds_section_entry(model, LDS_DEVICES, device) + 4));
}

/* --- queries ----------------------------------------------------------------------------------------------------------------- */
const char *lds_model_name(const lds_model *model) { return string_at(model, lds_u32(model->bytes + 20)); }

uint32_t lds_model_input_count(const lds_model *model) { return model->section[LDS_INPUTS].count; }

uint32_t lds_model_output_count(const lds_model *model) { return model->section[LDS_OUTPUTS].count; }

static int port(const lds_model *model, int section, uint32_t index, lds_tensor *out) {
  if (model == NULL || out == NULL || index >= model->section[section].count) return LDS_ERR_ARGUMENT;
  lds_model_tensor(model, lds_u32(lds_section_entry(model, section, index)), out);
  return LDS_OK;
}

int lds_model_input(const lds_model *model, uint32_t index, lds_tensor *out) { return port(model, LDS_INPUTS, index, out); }

int lds_model_output(const lds_model *model, uint32_t index, lds_tensor *out) { return port(model, LDS_OUTPUTS, index, out); }
