/* Programs: check their records in an artifact, and instructions against a table.
 *
 * In:   an artifact's steps; an instruction set as a table.
 * Out:  sound records (rules R18, R22 and R23 of FORMAT.md); LDS_OK, or the first instruction that is refused.
 * Next: session.c places programs; accelerator.c relocates what a table accepted.
 *
 * As for VTA (validate.c) a table is an allow-list: an opcode of the table, no bit outside its fields, each value within its limits, every
 * address from a relocation, and every access of the instruction inside a region that permits it, and inside the local memories.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include "reach.h"

enum { LDS_VTA_INSN_BYTES = 16 };

/* --- records ----------------------------------------------------------------------------------------------------------------- */
void lds_program_relocation(const lds_model *model, const lds_program *program, uint32_t index, lds_relocation *out) {
  const uint32_t first = program->relocations + LDS_RELOCATION_WORDS * index;
  const uint32_t place = lds_model_word(model, first + 1u);
  out->at = lds_model_word(model, first);
  out->bit = place & 0xFFFFu;
  out->width = place >> 16;
  out->shift = lds_model_word(model, first + 2u);
  out->region = lds_model_word(model, first + 3u);
  out->addend = lds_model_word(model, first + 4u);
}

/* In the order of instructions and bits, inside the code, of regions that a device sees. */
int lds_relocations_are_sound(const lds_model *model, const lds_program *p) {
  uint64_t last = 0;
  uint32_t k;
  for (k = 0; k < p->relocation_count; ++k) {
    lds_relocation r;
    lds_region region;
    uint64_t place;
    lds_program_relocation(model, p, k, &r);
    place = (uint64_t)r.at * 8u + r.bit;
    if (r.width < 1 || r.width > 64 || r.bit + r.width > 8u * LDS_INSN_MAX_BYTES || r.shift > 16) return 0;
    if (r.region >= model->section[LDS_REGION_TABLE].count || place + r.width > (uint64_t)p->size_bytes * 8u) return 0;
    if (k > 0 && place < last) return 0;
    region = lds_model_region(model, r.region);
    if (region.flags == 0 || r.addend > region.size_bytes) return 0;
    last = place + r.width;
  }
  return 1;
}

static int layers_are_sound(const lds_model *model, const lds_program *p) {
  const uint8_t *layer = model->section[LDS_WORDS].bytes + 4u * p->layers;
  uint32_t next = 0, k;
  for (k = 0; k < p->layer_count; ++k, layer += 4u * LDS_LAYER_WORDS) {
    const uint32_t begin = lds_u32(layer), count = lds_u32(layer + 4);
    if (begin < next || !lds_inside(begin, count, p->instructions) || !lds_model_is_string(model, lds_u32(layer + 8))) return 0;
    next = begin + count;
  }
  return 1;
}

/* The instructions of a VTA have one size, and name regions. */
static int configured_is_sound(const lds_model *model, const lds_program *p) {
  if (lds_hashed_bytes(lds_model_fingerprint(model, p->device)) != LDS_CONFIGURATION_BYTES) return 1;
  return p->relocation_count == 0 && (uint64_t)p->instructions * LDS_VTA_INSN_BYTES == p->size_bytes;
}

void lds_program_at(const lds_model *model, uint32_t step, lds_program *out) {
  const uint32_t first = lds_model_step(model, step).first;
  const uint8_t *words = model->section[LDS_WORDS].bytes + 4u * first;
  out->device = lds_u32(words);
  out->offset_bytes = lds_u32(words + 4);
  out->size_bytes = lds_u32(words + 8);
  out->instructions = lds_u32(words + 12);
  out->relocation_count = lds_u32(words + 16) & ~LDS_PROGRAM_BESIDE;
  out->beside = lds_u32(words + 16) >> 31;
  out->layer_count = lds_u32(words + 20);
  out->relocations = first + LDS_PROGRAM_WORDS;
  out->layers = out->relocations + LDS_RELOCATION_WORDS * out->relocation_count;
}

int lds_model_uses(const lds_model *model, uint32_t device) {
  uint32_t k;
  for (k = 0; k < model->section[LDS_STEPS].count; ++k) {
    lds_program p;
    if (lds_model_step(model, k).kind != LDS_STEP_PROGRAM) continue;
    lds_program_at(model, k, &p);
    if (p.device == device) return 1;
  }
  return 0;
}

int lds_program_is_sound(const lds_model *model, uint32_t step, uint32_t *code) {
  const lds_step s = lds_model_step(model, step);
  lds_program p;
  if (s.inputs != 0 || s.outputs != 0 || s.count < LDS_PROGRAM_WORDS) return 0;
  lds_program_at(model, step, &p);
  if (LDS_PROGRAM_WORDS + (uint64_t)LDS_RELOCATION_WORDS * p.relocation_count + (uint64_t)LDS_LAYER_WORDS * p.layer_count != s.count)
    return 0;
  if (p.device >= model->section[LDS_DEVICES].count || p.instructions == 0 || p.size_bytes == 0) return 0;
  if (p.beside != 0 && (step == 0 || lds_model_step(model, step - 1u).kind != LDS_STEP_PROGRAM)) return 0;
  if (p.offset_bytes % LDS_CODE_ALIGN != 0 || p.offset_bytes < *code) return 0;
  if (!lds_inside(p.offset_bytes, p.size_bytes, model->section[LDS_CODE].count)) return 0;
  *code = p.offset_bytes + p.size_bytes;
  return configured_is_sound(model, &p) && layers_are_sound(model, &p);
}

int lds_relocations_check(const lds_model *model) {
  uint32_t k;
  for (k = 0; k < model->section[LDS_STEPS].count; ++k) {
    lds_program p;
    if (lds_model_step(model, k).kind != LDS_STEP_PROGRAM) continue;
    lds_program_at(model, k, &p);
    if (!lds_relocations_are_sound(model, &p)) return LDS_ERR_FORMAT;
  }
  return LDS_OK;
}

const char *lds_program_layer(const lds_model *model, const lds_program *p, uint32_t instruction) {
  const uint8_t *layer = model->section[LDS_WORDS].bytes + 4u * p->layers;
  uint32_t k;
  for (k = 0; k < p->layer_count; ++k, layer += 4u * LDS_LAYER_WORDS) {
    if (instruction - lds_u32(layer) < lds_u32(layer + 4)) return (const char *)model->section[LDS_STRINGS].bytes + lds_u32(layer + 8);
  }
  return "";
}

/* --- bits -------------------------------------------------------------------------------------------------------------------- */
static uint64_t get_bits(const uint8_t *bytes, uint32_t bit, uint32_t width) {
  uint64_t value = 0;
  uint32_t k = 0;
  while (k < width) { /* a byte, or the part of it that belongs to the field */
    const uint32_t from = (bit + k) % 8u, some = 8u - from < width - k ? 8u - from : width - k;
    value |= (uint64_t)((uint32_t)bytes[(bit + k) / 8u] >> from & ((1u << some) - 1u)) << k;
    k += some;
  }
  return value;
}

void lds_put_bits(uint8_t *bytes, uint32_t bit, uint32_t width, uint64_t value) {
  uint32_t k = 0;
  while (k < width) {
    const uint32_t from = (bit + k) % 8u, some = 8u - from < width - k ? 8u - from : width - k;
    const uint32_t mask = (1u << some) - 1u, now = (uint32_t)(value >> k) & mask;
    uint8_t *byte = bytes + (bit + k) / 8u;
    *byte = (uint8_t)((*byte & ~(mask << from)) | now << from);
    k += some;
  }
}

/* --- one instruction --------------------------------------------------------------------------------------------------------- */
static int has_codes(const lds_insn_form *form, const uint8_t *bytes) {
  uint32_t k;
  for (k = 0; k < form->code_count; ++k) {
    if (get_bits(bytes, form->codes[k].bit, form->codes[k].width) != form->codes[k].value) return 0;
  }
  return 1;
}

/* The form of the instruction at `bytes`, of which `left` are there, four at least. */
static const lds_insn_form *form_of(const lds_insn_table *table, const uint8_t *bytes, uint32_t left) {
  const uint32_t opcode = (uint32_t)get_bits(bytes, table->opcode_bit, table->opcode_bits);
  uint32_t k;
  for (k = 0; k < table->form_count; ++k) {
    const lds_insn_form *form = &table->forms[k];
    if (form->opcode == opcode && form->size_bytes <= left && has_codes(form, bytes) != 0) return form;
  }
  return NULL;
}

static int in_limits(uint32_t flags, uint64_t low, uint64_t high, uint64_t value) {
  const uint64_t sign =
      (flags & LDS_FIELD_SIGNED) != 0 ? (uint64_t)1 << 63 : 0; /* maps the order of signed numbers to that of unsigned ones */
  return (low ^ sign) <= (value ^ sign) && (value ^ sign) <= (high ^ sign);
}

/* Extracts the fields; all remaining bits must be 0. */
static int take_fields(const lds_insn_table *table, const uint8_t *bytes, lds_insn_seen *seen) {
  uint8_t left[LDS_INSN_MAX_BYTES];
  uint32_t k;
  memcpy(left, bytes, seen->form->size_bytes);
  lds_put_bits(left, table->opcode_bit, table->opcode_bits, 0);
  for (k = 0; k < seen->form->code_count; ++k) lds_put_bits(left, seen->form->codes[k].bit, seen->form->codes[k].width, 0);
  for (k = 0; k < seen->form->field_count; ++k) {
    const lds_insn_field *f = &seen->form->fields[k];
    uint64_t value = get_bits(bytes, f->bit, f->width);
    if ((f->flags & LDS_FIELD_SIGNED) != 0 && f->width < 64u && (value >> (f->width - 1u) & 1u) != 0) value |= UINT64_MAX << f->width;
    if (!in_limits(f->flags, f->low, f->high, value)) return LDS_ERR_INSTRUCTION;
    lds_put_bits(left, f->bit, f->width, 0);
    seen->value[k] = value;
    seen->region[k] = UINT32_MAX;
  }
  for (k = 0; k < seen->form->size_bytes; ++k) {
    if (left[k] != 0) return LDS_ERR_INSTRUCTION;
  }
  return LDS_OK;
}

/* A relocation belongs to an address field, which the file leaves 0. */
static int take_relocation(const lds_relocation *r, lds_insn_seen *seen) {
  uint32_t k;
  for (k = 0; k < seen->form->field_count; ++k) {
    const lds_insn_field *f = &seen->form->fields[k];
    if ((f->flags & LDS_FIELD_ADDRESS) == 0 || f->bit != r->bit) continue;
    if (f->width != r->width || f->shift != r->shift || seen->value[k] != 0) return LDS_ERR_INSTRUCTION;
    seen->value[k] = r->addend;
    seen->region[k] = r->region;
    return LDS_OK;
  }
  return LDS_ERR_INSTRUCTION;
}

/* Records the address registers that it sets, for the instructions that follow. */
static int keep_addresses(lds_insn_seen *seen) {
  uint32_t k;
  for (k = 0; k < seen->form->keep_count; ++k) {
    const lds_insn_keep *keep = &seen->form->keeps[k];
    const uint64_t index = lds_insn_term_value(seen, &keep->index);
    if (index >= keep->bank_size) return LDS_ERR_INSTRUCTION;
    seen->kept[keep->bank - 1u + index] = (uint32_t)seen->value[keep->field]; /* of a relocation, or 0 */
    seen->kept_region[keep->bank - 1u + index] = (uint8_t)seen->region[keep->field];
  }
  return LDS_OK;
}

/* Sets registers, for the instructions that follow, from what they held before. */
static int set_registers(const lds_insn_table *table, lds_insn_seen *seen) {
  const lds_insn_form *form = seen->form;
  uint64_t value[LDS_INSN_REGISTERS];
  uint32_t now = 0, k;
  for (k = 0; k < form->set_count; ++k) {
    const lds_insn_set *set = &form->sets[k];
    const lds_insn_register *r = &table->registers[set->number];
    if (lds_insn_term_value(seen, &set->when) == 0) continue;
    value[set->number] = lds_insn_term_value(seen, &set->value);
    if (!in_limits(r->flags, r->low, r->high, value[set->number])) return LDS_ERR_INSTRUCTION;
    now |= 1u << set->number;
  }
  for (k = 0; k < table->register_count; ++k) {
    if ((now >> k & 1u) != 0) seen->value[LDS_INSN_MAX_FIELDS + k] = value[k];
  }
  seen->registers_set |= now;
  return LDS_OK;
}

/* --- the program ------------------------------------------------------------------------------------------------------------- */
static void see_regions(const lds_model *model, const lds_insn_table *table, lds_insn_seen *seen) {
  uint32_t r;
  memset(seen, 0, sizeof *seen);
  for (r = 0; r < LDS_INSN_KEPT; ++r) seen->kept_region[r] = LDS_NO_REGION;
  for (r = 0; r < model->section[LDS_REGION_TABLE].count; ++r) {
    const lds_region region = lds_model_region(model, r);
    seen->region_flags[r] = region.flags;
    seen->region_size_bytes[r] = region.flags != 0 ? region.size_bytes : 0;
    if (table->region_bank != 0 && r < table->region_count) seen->kept_region[table->region_bank - 1u + r] = (uint8_t)r;
  }
  for (r = 0; r < table->register_count; ++r) {
    if ((table->registers[r].flags & LDS_REGISTER_RESET) == 0) continue;
    seen->value[LDS_INSN_MAX_FIELDS + r] = table->registers[r].reset;
    seen->registers_set |= 1u << r;
  }
}

static int check_instruction(const lds_accelerator *accelerator, const lds_insn_seen *seen, const lds_insn_words *words) {
  uint32_t k;
  if ((seen->form->reads & ~seen->registers_set) != 0) return LDS_ERR_INSTRUCTION;
  for (k = 0; k < seen->form->never_count; ++k) {
    if (lds_insn_term_value(seen, &seen->form->never[k]) != 0) return LDS_ERR_INSTRUCTION;
  }
  for (k = 0; k < seen->form->field_count; ++k) { /* an address without a relocation points nowhere */
    if ((seen->form->fields[k].flags & LDS_FIELD_ADDRESS) != 0 && seen->region[k] == UINT32_MAX && seen->value[k] != 0) return LDS_ERR_DRAM;
  }
  for (k = 0; k < seen->form->reach_count; ++k) {
    const int status = lds_insn_check_reach(accelerator->table, seen, &seen->form->reaches[k], words);
    if (status != LDS_OK) return status;
  }
  return accelerator->refuse != NULL && accelerator->refuse(seen) != 0 ? LDS_ERR_INSTRUCTION : LDS_OK;
}

/* Whether programs of this table end with an instruction that says so. */
static uint32_t must_end(const lds_insn_table *table) {
  uint32_t k, ends = 0;
  for (k = 0; k < table->form_count; ++k) ends |= table->forms[k].ends;
  return ends;
}

static int validate(const lds_model *model, const lds_program *p, const lds_accelerator *accelerator, const uint8_t *code,
                    lds_insn_words *words, lds_fault *fault) {
  const uint32_t ending = must_end(accelerator->table);
  lds_insn_seen seen;
  uint32_t at = 0, next = 0, count = 0;
  see_regions(model, accelerator->table, &seen);
  while (at < p->size_bytes) {
    int status;
    fault->instruction = count;
    if (p->size_bytes - at < 4u) return LDS_ERR_INSTRUCTION; /* an opcode is in the first four bytes */
    seen.form = form_of(accelerator->table, code + at, p->size_bytes - at);
    if (seen.form == NULL) return LDS_ERR_INSTRUCTION;
    status = take_fields(accelerator->table, code + at, &seen);
    for (; status == LDS_OK && next < p->relocation_count; ++next) {
      lds_relocation r;
      lds_program_relocation(model, p, next, &r);
      if (r.at != at) break;
      status = take_relocation(&r, &seen);
    }
    at += seen.form->size_bytes;
    if (status == LDS_OK && seen.form->ends != (ending != 0 && at == p->size_bytes)) status = LDS_ERR_FINISH;
    if (status == LDS_OK) status = check_instruction(accelerator, &seen, words);
    if (status == LDS_OK) status = keep_addresses(&seen);
    if (status == LDS_OK) status = lds_insn_keep_words(accelerator->table, &seen, words);
    if (status == LDS_OK) status = set_registers(accelerator->table, &seen);
    if (status != LDS_OK) return status;
    ++count;
  }
  return next == p->relocation_count && count == p->instructions ? LDS_OK : LDS_ERR_INSTRUCTION;
}

size_t lds_program_scratch_bytes(const lds_accelerator *accelerator) {
  return accelerator->table != NULL ? lds_insn_words_bytes(accelerator->table) : 0;
}

int lds_table_validate(const lds_model *model, const lds_program *program, const lds_accelerator *accelerator, const uint8_t *code,
                       const uint8_t *const *constants, lds_memory scratch, lds_fault *fault) {
  lds_insn_words words;
  int status = lds_insn_words_begin(accelerator->table, constants, scratch.at, scratch.left, &words);
  if (status == LDS_OK) status = validate(model, program, accelerator, code, &words, fault);
  fault->layer = lds_program_layer(model, program, fault->instruction); /* looked up once: there may be as many layers as instructions */
  return status;
}

int lds_program_validate(const lds_model *model, uint32_t step, const lds_accelerator *accelerator, const uint8_t *code,
                         const uint8_t *const *constants, void *scratch, size_t scratch_bytes, lds_fault *fault) {
  const lds_memory memory = {scratch, scratch_bytes};
  lds_program p;
  if (accelerator->table == NULL) return LDS_ERR_ARGUMENT; /* a VTA: lds_validate */
  lds_program_at(model, step, &p);
  return lds_table_validate(model, &p, accelerator, code, constants, memory, fault);
}
