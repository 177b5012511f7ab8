/* Entries: several functions of one model, which share constants, states and memory.
 *
 * In:   an opened model, whose table of entries is hostile until checked (R24 of FORMAT.md); a session.
 * Out:  an entry's part of the steps, the inputs and the outputs; a run of these steps.
 * Next: run.c executes them.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

enum { PARTS = 3 }; /* steps, inputs, outputs */

/* Words of an entry. */
enum { NAME, PART, ENTRY_WORDS = PART + PARTS };

/* Where the table begins in section words, and how many entries it has: it is the end of the section, behind the words of the last step.
 * 0: it is not there. */
static uint32_t find_table(const lds_model *model, uint32_t *first) {
  const uint32_t entries = lds_u32(model->bytes + LDS_ENTRIES_AT), words = model->section[LDS_WORDS].count;
  const uint32_t steps = model->section[LDS_STEPS].count;
  if (entries == 0 || entries > words / ENTRY_WORDS) return 0;
  *first = words - ENTRY_WORDS * entries;
  if (steps != 0) {
    const lds_step last = lds_model_step(model, steps - 1u);
    if (!lds_inside(last.first, last.count, *first)) return 0;
  }
  return entries;
}

int lds_model_entry(const lds_model *model, uint32_t index, lds_entry *out) {
  uint32_t all[PARTS], first[PARTS] = {0, 0, 0}, entries, table = 0, k, part;
  if (model == NULL || out == NULL) return LDS_ERR_ARGUMENT;
  memset(out, 0, sizeof *out);
  out->name = "";
  out->steps = all[0] = model->section[LDS_STEPS].count;
  out->inputs = all[1] = model->section[LDS_INPUTS].count;
  out->outputs = all[2] = model->section[LDS_OUTPUTS].count;
  if (!lds_has_entries(model->bytes)) return index == 0 ? LDS_OK : LDS_ERR_ARGUMENT;
  entries = find_table(model, &table);
  for (k = 0; k < entries; ++k, table += ENTRY_WORDS) {
    const uint32_t name = lds_model_word(model, table + NAME);
    lds_entry here = {NULL, first[0], 0, first[1], 0, first[2], 0};
    if (!lds_model_is_string(model, name)) return LDS_ERR_FORMAT;
    for (part = 0; part < PARTS; ++part) {
      const uint32_t some = lds_model_word(model, table + PART + part);
      if (!lds_inside(first[part], some, all[part])) return LDS_ERR_FORMAT;
      first[part] += some;
    }
    if (k == 0 && (first[0] == 0 || first[0] != lds_u32(model->bytes + LDS_FIRST_STEPS_AT))) return LDS_ERR_FORMAT;
    if (k != index) continue;
    here.name = (const char *)model->section[LDS_STRINGS].bytes + name;
    here.steps = first[0] - here.first_step;
    here.inputs = first[1] - here.first_input;
    here.outputs = first[2] - here.first_output;
    *out = here;
  }
  if (entries == 0 || first[0] != all[0] || first[1] != all[1] || first[2] != all[2]) return LDS_ERR_FORMAT;
  return index < entries ? LDS_OK : LDS_ERR_ARGUMENT;
}

int lds_session_start_entry(lds_session *s, uint32_t index) {
  lds_entry entry;
  int status;
  if (s == NULL) return LDS_ERR_ARGUMENT;
  status = lds_model_entry(s->model, index, &entry);
  return status == LDS_OK ? lds_session_start_steps(s, entry.first_step, entry.first_step + entry.steps, 0) : status;
}
