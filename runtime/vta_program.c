/* Programs of VTAs: the session's own and further ones, each with the configuration in its fingerprint.
 *
 * In:   a step's program in its place; lds_session_config.validate and most_ns, where they are linked in.
 * Out:  whether it may run; absolute addresses for devices that have no registers for regions.
 * Next: session.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "geometry.h"
#include "program.h"
#include "session.h"

static int fits(const lds_session *s, const lds_accelerator *a, const lds_program *p) {
  const uint32_t device = p->device;
  const uint32_t hash = lds_model_config_hash(s->model, device);
  if (lds_hashed_bytes(lds_model_fingerprint(s->model, device)) != LDS_CONFIGURATION_BYTES) return LDS_ERR_CONFIG;
  if (a->device->config_hash != 0 && a->device->config_hash != hash) return LDS_ERR_CONFIG;
  if (lds_has_regions(s->model, device) && (a->device->registers->flags & LDS_BLOCK_REGIONS) == 0) return LDS_ERR_CONFIG;
  return lds_device_answers(a->device, hash);
}

static int validate(const lds_session *s, const lds_accelerator *a, const lds_program *p, const uint8_t *code, lds_memory scratch,
                    lds_fault *fault) {
  (void)a;
  return s->config.validate->program(s, p, code, scratch, fault);
}

/* Works on 32-bit words, for small processors: the tile number spans both words, and the region follows it. */
static int resolve(const lds_session *s, const lds_hw_config *c, uint8_t *bytes) {
  enum { AT = LDS_BIT_MEMORY_DRAM_BASE, REGION_AT = LDS_BIT_MEMORY_REGION - 32 };
  uint32_t low = lds_u32(bytes), high = lds_u32(bytes + 4), k;
  const uint32_t opcode = low & 7u, log_bytes = lds_log_tile_bytes(c, low >> LDS_BIT_MEMORY_MEMORY_ID & 7u);
  const uint64_t bus = s->region[high >> REGION_AT & 7u].bus, tile = (bus >> log_bytes) + (low >> AT | high << (32 - AT));
  const uint8_t *x_size = bytes + LDS_BIT_MEMORY_X_SIZE / 8u;
  if (opcode != LDS_OPCODE_LOAD && opcode != LDS_OPCODE_STORE) return LDS_OK;
  if ((x_size[0] | x_size[1]) == 0) return LDS_OK; /* a no-op is zeros */
  if (((uint32_t)bus & (((uint32_t)1 << log_bytes) - 1u)) != 0 || tile >> 32 != 0) return LDS_ERR_ADDRESS;
  low = (low & (((uint32_t)1 << AT) - 1u)) | (uint32_t)tile << AT;
  high = (high >> (REGION_AT + 3) << (REGION_AT + 3)) | (uint32_t)tile >> (32 - AT);
  for (k = 0; k < 8u; ++k) {
    bytes[k] = (uint8_t)low;
    low = low >> 8 | high << 24;
    high >>= 8;
  }
  return LDS_OK;
}

/* A device with registers for regions takes the program as it is. */
static int bind(const lds_session *s, const lds_accelerator *a, const lds_program *p, uint8_t *code) {
  lds_hw_config c;
  int status = LDS_OK;
  uint32_t k;
  (void)a;
  if (lds_has_regions(s->model, p->device)) return LDS_OK;
  c = lds_config_of(s->model, p->device);
  for (k = 0; k < p->instructions && status == LDS_OK; ++k) status = resolve(s, &c, code + (size_t)k * LDS_INSN_BYTES);
  return status;
}

static uint64_t most_ns(const lds_session *s, const lds_program *p, const uint8_t *code) {
  return s->config.most_ns != NULL ? s->config.most_ns(s->model, p->device, code, p->instructions, s->config.clock_hz) : 0;
}

const lds_program_kind lds_vta_programs = {fits, validate, bind, most_ns};
