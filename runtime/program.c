/* Programs of devices other than VTA: check their records in an artifact, and their instructions.
 *
 * In:   an opened model; the instruction set as a table.
 * Out:  valid records (rule R23 of FORMAT.md); LDS_OK, or the first instruction that is refused.
 * Next: accelerator.c relocates what was accepted.
 *
 * As for VTA this is an allow-list: an opcode of the table, no bit outside its fields, each value within its limits, every address from a
 * relocation, and every access of the instruction inside a region that permits it, and inside the local memories.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include "reach.h"

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
static int relocations_are_sound(const lds_model *model, const lds_program *p) {
  uint64_t last = 0;
  uint32_t k;
  for (k = 0; k < p->relocation_count; ++k) {
    lds_relocation r;
    lds_region region;
    uint64_t place;
    lds_program_relocation(model, p, k, &r);
    place = (uint64_t)r.at * 8u + r.bit;
    if (r.width < 1 || r.width > 64 || r.bit + r.width > 8u * LDS_INSN_MAX_BYTES || r.shift > 16) return 0;
    if (r.region >= model->section[LDS_REGION_TABLE].count || place + r.width > (uint64_t)p->code.size_bytes * 8u) return 0;
    if (k > 0 && place < last) return 0;
    region = lds_model_region(model, r.region);
    if (region.flags == 0 || r.addend > region.size_bytes) return 0;
    last = place + r.width;
  }
  return 1;
}

static int layers_are_sound(const lds_model *model, const lds_program *p) {
  uint32_t next = 0, k;
  for (k = 0; k < p->layer_count; ++k) {
    const uint32_t first = p->layers + LDS_LAYER_WORDS * k;
    const uint32_t begin = lds_model_word(model, first), count = lds_model_word(model, first + 1u);
    if (begin < next || !lds_inside(begin, count, p->instructions)) return 0;
    if (!lds_model_is_string(model, lds_model_word(model, first + 2u))) return 0;
    next = begin + count;
  }
  return 1;
}

int lds_program_is_vta(const lds_model *model, const lds_program *p) {
  uint32_t k;
  for (k = LDS_VTA_FINGERPRINT_BYTES / 4u; k < LDS_FINGERPRINT_BYTES / 4u; ++k) {
    if (lds_model_word(model, p->fingerprint + k) != 0) return 0;
  }
  return 1;
}

/* A VTA's configuration has a version, its instructions one size, and no addresses. */
static int vta_is_sound(const lds_model *model, const lds_program *p) {
  if (!lds_program_is_vta(model, p)) return 1;
  return (lds_model_word(model, p->fingerprint) & 0xFFu) == 1u && p->relocation_count == 0 &&
         (uint64_t)p->instructions * LDS_VTA_INSN_BYTES == p->code.size_bytes;
}

static int code_is_sound(const lds_model *model, const lds_program *p) {
  const lds_region r = lds_model_region(model, p->code.region);
  return p->code.dtype == LDS_UINT8 && p->code.rank == 1 && r.kind == LDS_REGION_CONSTANTS && r.flags == 0 &&
         p->code.offset_bytes % LDS_CODE_ALIGN == 0;
}

static int follows_program(const lds_model *model, uint32_t step) {
  const uint32_t kind = step != 0 ? lds_model_step(model, step - 1u).kind : (uint32_t)LDS_STEP_EXTERNAL;
  return kind == LDS_STEP_DEVICE || kind == LDS_STEP_PROGRAM;
}

void lds_program_at(const lds_model *model, uint32_t step, lds_program *out) {
  const uint32_t first = lds_model_step(model, step).first;
  out->device = (const char *)model->section[LDS_STRINGS].bytes + lds_model_word(model, first);
  out->fingerprint = first + 2u;
  lds_model_tensor(model, lds_model_word(model, first + 10u), &out->code);
  out->instructions = lds_model_word(model, first + 11u);
  out->relocation_count = lds_model_word(model, first + 12u) & ~LDS_PROGRAM_BESIDE;
  out->beside = lds_model_word(model, first + 12u) >> 31;
  out->layer_count = lds_model_word(model, first + 13u);
  out->relocations = first + LDS_PROGRAM_WORDS;
  out->layers = out->relocations + LDS_RELOCATION_WORDS * out->relocation_count;
}

/* Checks what lds_program_at relies on. */
static int head_is_sound(const lds_model *model, const lds_step *s) {
  if (lds_model_version(model) < LDS_FORMAT_PROGRAMS || s->kind != LDS_STEP_PROGRAM || s->inputs != 0 || s->outputs != 0) return 0;
  return s->count >= LDS_PROGRAM_WORDS && lds_model_is_string(model, lds_model_word(model, s->first)) &&
         lds_model_is_string(model, lds_model_word(model, s->first + 1u)) &&
         lds_model_word(model, s->first + 10u) < model->section[LDS_TENSOR_TABLE].count;
}

/* The code is in the region of the preceding program's code, *last, and after it; the rank of *last is 0 before the first program. */
static int program_is_sound(const lds_model *model, uint32_t step, lds_tensor *last) {
  const lds_step s = lds_model_step(model, step);
  uint64_t words = LDS_PROGRAM_WORDS;
  lds_program p;
  if (!head_is_sound(model, &s)) return 0;
  lds_program_at(model, step, &p);
  words += (uint64_t)LDS_RELOCATION_WORDS * p.relocation_count + (uint64_t)LDS_LAYER_WORDS * p.layer_count;
  if (words != s.count || p.instructions == 0 || (p.beside != 0 && !follows_program(model, step))) return 0;
  if (!code_is_sound(model, &p)) return 0;
  if (last->rank != 0 && (p.code.region != last->region || p.code.offset_bytes < last->offset_bytes + last->size_bytes)) return 0;
  *last = p.code;
  return vta_is_sound(model, &p) && relocations_are_sound(model, &p) && layers_are_sound(model, &p);
}

int lds_programs_check(const lds_model *model) {
  lds_tensor last;
  uint32_t k;
  memset(&last, 0, sizeof last);
  for (k = 0; k < model->section[LDS_STEPS].count; ++k) {
    if (lds_model_step(model, k).kind == LDS_STEP_PROGRAM && !program_is_sound(model, k, &last)) return LDS_ERR_FORMAT;
  }
  return LDS_OK;
}

const char *lds_program_layer(const lds_model *model, const lds_program *p, uint32_t instruction) {
  uint32_t k;
  for (k = 0; k < p->layer_count; ++k) {
    const uint32_t first = p->layers + LDS_LAYER_WORDS * k;
    if (instruction - lds_model_word(model, first) < lds_model_word(model, first + 1u))
      return (const char *)model->section[LDS_STRINGS].bytes + lds_model_word(model, first + 2u);
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
static const lds_insn_form *form_of(const lds_insn_table *table, const uint8_t *bytes) {
  const uint32_t opcode = (uint32_t)get_bits(bytes, 0, table->opcode_bits);
  uint32_t k;
  for (k = 0; k < table->form_count; ++k) {
    if (table->forms[k].opcode == opcode) return &table->forms[k];
  }
  return NULL;
}

static int in_limits(const lds_insn_field *f, uint64_t value) {
  const uint64_t sign =
      (f->flags & LDS_FIELD_SIGNED) != 0 ? (uint64_t)1 << 63 : 0; /* maps the order of signed numbers to that of unsigned ones */
  return (f->low ^ sign) <= (value ^ sign) && (value ^ sign) <= (f->high ^ sign);
}

/* Extracts the fields; all remaining bits must be 0. */
static int take_fields(const lds_insn_table *table, const uint8_t *bytes, lds_insn_seen *seen) {
  uint8_t left[LDS_INSN_MAX_BYTES];
  uint32_t k;
  memcpy(left, bytes, seen->form->size_bytes);
  lds_put_bits(left, 0, table->opcode_bits, 0);
  for (k = 0; k < seen->form->field_count; ++k) {
    const lds_insn_field *f = &seen->form->fields[k];
    uint64_t value = get_bits(bytes, f->bit, f->width);
    if ((f->flags & LDS_FIELD_SIGNED) != 0 && f->width < 64u && (value >> (f->width - 1u) & 1u) != 0) value |= UINT64_MAX << f->width;
    if (!in_limits(f, value)) return LDS_ERR_INSTRUCTION;
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
}

static int check_instruction(const lds_accelerator *accelerator, const lds_insn_seen *seen, const lds_insn_words *words) {
  uint32_t k;
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
  while (at < p->code.size_bytes) {
    int status;
    fault->instruction = count;
    if (p->code.size_bytes - at < 4u) return LDS_ERR_INSTRUCTION; /* an opcode is in the first four bytes */
    seen.form = form_of(accelerator->table, code + at);
    if (seen.form == NULL || seen.form->size_bytes > p->code.size_bytes - at) return LDS_ERR_INSTRUCTION;
    status = take_fields(accelerator->table, code + at, &seen);
    for (; status == LDS_OK && next < p->relocation_count; ++next) {
      lds_relocation r;
      lds_program_relocation(model, p, next, &r);
      if (r.at != at) break;
      status = take_relocation(&r, &seen);
    }
    at += seen.form->size_bytes;
    if (status == LDS_OK && seen.form->ends != (ending != 0 && at == p->code.size_bytes)) status = LDS_ERR_FINISH;
    if (status == LDS_OK) status = check_instruction(accelerator, &seen, words);
    if (status == LDS_OK) status = keep_addresses(&seen);
    if (status == LDS_OK) status = lds_insn_keep_words(accelerator->table, &seen, words);
    if (status != LDS_OK) return status;
    ++count;
  }
  return next == p->relocation_count && count == p->instructions ? LDS_OK : LDS_ERR_INSTRUCTION;
}

size_t lds_program_scratch_bytes(const lds_accelerator *accelerator) {
  return accelerator->table != NULL ? lds_insn_words_bytes(accelerator->table) : 0;
}

int lds_program_validate(const lds_model *model, uint32_t step, const lds_accelerator *accelerator, const uint8_t *code,
                         const uint8_t *const *constants, void *scratch, size_t scratch_bytes, lds_fault *fault) {
  lds_insn_words words;
  lds_program p;
  int status;
  if (accelerator->table == NULL) return LDS_ERR_ARGUMENT; /* a VTA has a validator of its own */
  lds_program_at(model, step, &p);
  status = lds_insn_words_begin(accelerator->table, constants, scratch, scratch_bytes, &words);
  if (status == LDS_OK) status = validate(model, &p, accelerator, code, &words, fault);
  fault->layer = lds_program_layer(model, &p, fault->instruction); /* looked up once: there may be as many layers as instructions */
  return status;
}
