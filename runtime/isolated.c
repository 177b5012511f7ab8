/* Whether programs depend on what ran before them: what several networks on one device rely on (rule V17 of VALIDATION.md).
 *
 * In:   an opened model, whose instructions are hostile until checked.
 * Out:  LDS_OK, or the first instruction that may read what its own program has not written.
 * Next: schedule.c turns to another network between programs that pass.
 *
 * FINISH leaves no token, registers are as after a reset when a program starts, and micro-ops are those that it loaded (V11, V15, V16).
 * What remains are tiles: those that an instruction reads must be among those that instructions before it have certainly written.
 *   - Compute executes in order: of ACC and OUT it knows what it has done. Of INP and WGT it knows what load, and store, had done when they
 *     pushed the tokens that compute popped last; store knows as much of compute. So one stage is followed in order, the others up to
 *     that push.
 *   - The tiles of two nested loops are those of the micro-ops, moved by a stride again and again: a set of bits that is shifted and
 *     joined with itself as often as a number has bits. An instruction costs its micro-ops and a scratchpad's bits, whatever its loops.
 * Nothing here relies on what validate.c has found: a tile that a scratchpad does not have is refused, too.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "geometry.h"
#include "lds_schedule.h"
#include "program.h"
#include "session.h"

enum { BITS = 32 };

/* Tiles of a scratchpad, a bit for each. */
typedef struct tiles {
  uint32_t depth;
  uint32_t *bits;
} tiles;

typedef struct walk {
  const lds_model *model;
  const uint8_t *code;
  uint32_t count; /* of its instructions */
  lds_hw_config config;
  lds_isa_widths widths;
  tiles inp, wgt, acc, out;    /* those that were certainly written */
  uint32_t *some;              /* the tiles of one instruction, in the largest scratchpad */
  uint32_t *uop;               /* the micro-ops that were loaded */
  uint32_t behind[3], sent[3]; /* of each stage that is followed up to a push: its next instruction, and how often it has pushed */
} walk;

static uint32_t words(uint32_t depth) { return (depth + BITS - 1u) / BITS; }

/* --- sets of tiles ----------------------------------------------------------------------------------------------------------- */
static uint32_t bit_mask(uint32_t count) { return count >= BITS ? UINT32_MAX : ((uint32_t)1 << count) - 1u; }

/* Adds tiles [first, first + count) to a set; or, where it does not add, LDS_ERR_RESIDUE if one of them is missing. */
static int range(const tiles *t, uint32_t first, uint64_t count, int adds) {
  uint64_t at = first;
  const uint64_t end = first + count;
  if (end > t->depth) return LDS_ERR_SRAM;
  while (at < end) {
    const uint32_t from = (uint32_t)at % BITS, some = (uint32_t)(end - at < BITS - from ? end - at : BITS - from);
    const uint32_t mask = bit_mask(some) << from;
    uint32_t *word = &t->bits[at / BITS];
    if (!adds && (~*word & mask) != 0) return LDS_ERR_RESIDUE;
    *word |= mask;
    at += some;
  }
  return LDS_OK;
}

/* Joins a set with itself, moved by `shift` tiles. Tiles beyond its end are lost. */
static void join_moved(uint32_t *bits, uint32_t size, uint64_t shift) {
  const uint64_t by = shift / BITS;
  const uint32_t rest = (uint32_t)(shift % BITS);
  uint32_t k;
  for (k = size; k-- > 0 && k >= by;) { /* from the end: what is moved has not been changed yet */
    uint32_t moved = bits[k - by] << rest;
    if (rest != 0 && k > by) moved |= bits[k - by - 1u] >> (BITS - rest);
    bits[k] |= moved;
  }
}

/* Adds copies of a set, so that there are `turns`, each `stride` tiles behind the one before. */
static void repeat(uint32_t *bits, uint32_t size, uint32_t turns, uint32_t stride) {
  uint32_t have = 1;
  while (stride != 0 && have < turns) {
    const uint32_t more = have < turns - have ? have : turns - have;
    join_moved(bits, size, (uint64_t)more * stride);
    have += more;
  }
}

static int is_part_of(const uint32_t *some, const tiles *all) {
  uint32_t k;
  for (k = 0; k < words(all->depth); ++k) {
    if ((some[k] & ~all->bits[k]) != 0) return 0;
  }
  return 1;
}

static void add(const uint32_t *some, const tiles *all) {
  uint32_t k;
  for (k = 0; k < words(all->depth); ++k) all->bits[k] |= some[k];
}

/* --- instructions of compute ------------------------------------------------------------------------------------------------- */
typedef enum operand { DST, SRC, WGT } operand;

typedef struct loops {
  uint32_t uop_bgn, uop_end, iter_out, iter_in;
} loops;

/* The tiles of one step, from the one that it names on. */
typedef struct window {
  uint32_t columns, rows, row_stride;
} window;

static const window one_tile = {1, 1, 0}, rq_tiles = {3, 1, 0};

/* The tiles of an operand, in w->some. `out` and `in` are its strides. */
static int touched(const walk *w, const loops *l, operand which, uint32_t out, uint32_t in, window step, const tiles *of) {
  const uint32_t size = words(of->depth);
  uint64_t last = 0;
  uint32_t k;
  if (l->uop_bgn >= l->uop_end || l->uop_end > w->config.uop_depth) return LDS_ERR_UOP;
  if (l->iter_out == 0 || l->iter_in == 0 || step.columns == 0 || step.rows == 0) return LDS_ERR_INSTRUCTION;
  memset(w->some, 0, size * sizeof *w->some);
  for (k = l->uop_bgn; k < l->uop_end; ++k) {
    const lds_uop u = lds_uop_decode(w->widths, w->uop[k]);
    const uint32_t tile = which == DST ? u.dst : which == SRC ? u.src : u.wgt;
    if (tile >= of->depth) return LDS_ERR_SRAM;
    if (tile > last) last = tile;
    w->some[tile / BITS] |= (uint32_t)1 << tile % BITS;
  }
  last += (uint64_t)(l->iter_out - 1u) * out + (uint64_t)(l->iter_in - 1u) * in;
  last += (uint64_t)(step.rows - 1u) * step.row_stride + step.columns - 1u;
  if (last >= of->depth) return LDS_ERR_SRAM;
  repeat(w->some, size, step.columns, 1);
  repeat(w->some, size, step.rows, step.row_stride);
  repeat(w->some, size, l->iter_in, in);
  repeat(w->some, size, l->iter_out, out);
  return LDS_OK;
}

/* Whether all tiles of an operand were written. */
static int reads(const walk *w, const loops *l, operand which, uint32_t out, uint32_t in, window step, const tiles *of) {
  const int status = touched(w, l, which, out, in, step, of);
  if (status != LDS_OK) return status;
  return is_part_of(w->some, of) ? LDS_OK : LDS_ERR_RESIDUE;
}

/* Products and ALU write ACC, and unless they reset, OUT. */
static int writes(const walk *w, const loops *l, uint32_t out, uint32_t in, int reset) {
  const int status = touched(w, l, DST, out, in, one_tile, &w->acc);
  if (status != LDS_OK) return status;
  add(w->some, &w->acc);
  if (!reset) add(w->some, &w->out);
  return LDS_OK;
}

static int gemm(const walk *w, const lds_insn_gemm *g, int checks) {
  const loops l = {g->uop_bgn, g->uop_end, g->iter_out, g->iter_in};
  int status = LDS_OK;
  if (checks && g->reset == 0) {
    status = reads(w, &l, SRC, g->src_out, g->src_in, one_tile, &w->inp);
    if (status == LDS_OK) status = reads(w, &l, WGT, g->wgt_out, g->wgt_in, one_tile, &w->wgt);
    if (status == LDS_OK && g->overwrite == 0) status = reads(w, &l, DST, g->dst_out, g->dst_in, one_tile, &w->acc);
  }
  return status == LDS_OK ? writes(w, &l, g->dst_out, g->dst_in, g->reset != 0) : status;
}

static int depthwise(const walk *w, const lds_insn_depthwise *d, int checks) {
  const loops l = {d->uop_bgn, d->uop_end, d->iter_out, d->iter_in};
  const window step = {d->columns, d->rows, d->row_stride};
  int status = LDS_OK;
  if (checks) {
    status = reads(w, &l, SRC, d->src_out, d->src_in, step, &w->inp);
    if (status == LDS_OK) status = reads(w, &l, WGT, d->wgt_out, 0, one_tile, &w->wgt);
    if (status == LDS_OK && d->overwrite == 0) status = reads(w, &l, DST, d->dst_out, d->dst_in, one_tile, &w->acc);
  }
  return status == LDS_OK ? writes(w, &l, d->dst_out, d->dst_in, 0) : status;
}

static int alu(const walk *w, const lds_insn_alu *a, int checks) {
  const loops l = {a->uop_bgn, a->uop_end, a->iter_out, a->iter_in};
  int status = LDS_OK;
  if (checks) {
    const window step = a->alu_op == LDS_ALU_RQ ? rq_tiles : one_tile;
    status = reads(w, &l, DST, a->dst_out, a->dst_in, one_tile, &w->acc);
    if (status == LDS_OK && a->use_imm == 0) status = reads(w, &l, SRC, a->src_out, a->src_in, step, &w->acc);
  }
  return status == LDS_OK ? writes(w, &l, a->dst_out, a->dst_in, 0) : status;
}

/* Micro-ops come from constants alone. */
static int load_uops(const walk *w, const lds_insn_memory *m) {
  lds_region region;
  const uint8_t *from;
  uint32_t k;
  if (m->region >= w->model->section[LDS_REGION_TABLE].count) return LDS_ERR_DRAM;
  region = lds_model_region(w->model, m->region);
  if (region.kind != LDS_REGION_CONSTANTS) return LDS_ERR_UOP;
  if (!lds_inside(m->dram_base, m->x_size, region.size_bytes / LDS_UOP_BYTES)) return LDS_ERR_DRAM;
  if (!lds_inside(m->sram_base, m->x_size, w->config.uop_depth)) return LDS_ERR_SRAM;
  from = w->model->section[LDS_DATA].bytes + region.data_offset + (size_t)m->dram_base * LDS_UOP_BYTES;
  for (k = 0; k < m->x_size; ++k) w->uop[m->sram_base + k] = lds_u32(from + (size_t)k * LDS_UOP_BYTES);
  return LDS_OK;
}

/* --- stages ------------------------------------------------------------------------------------------------------------------ */
static int at(const walk *w, uint32_t k, lds_insn *insn) {
  return lds_insn_decode(w->widths, w->code + (size_t)k * LDS_INSN_BYTES, insn) == LDS_ISA_OK ? LDS_OK : LDS_ERR_INSTRUCTION;
}

static uint32_t stage_of(const lds_insn *insn) {
  static const uint8_t loads[LDS_MEMORIES] = LDS_LOAD_STAGES;
  if (insn->opcode == LDS_OPCODE_LOAD) return loads[insn->u.memory.memory_id];
  if (insn->opcode == LDS_OPCODE_STORE) return LDS_STAGE_STORE;
  return insn->opcode == LDS_OPCODE_CONFIG ? insn->u.config.stage : LDS_STAGE_COMPUTE;
}

/* Whether a code of bit planes, among constants, certainly has the tiles that its LOAD says. */
static int has_tiles(const walk *w, const lds_insn_memory *m) {
  enum { PLANES = 8 * LDS_PLANE_WORD_BYTES / LDS_PLANE_WEIGHTS }; /* of a word */
  const uint32_t rows = m->y_size * (((uint32_t)1 << 2u * w->config.log_block) / LDS_PLANE_WEIGHTS);
  lds_region region;
  const uint8_t *from;
  uint32_t head = 0, found = 0, r;
  if (m->region >= w->model->section[LDS_REGION_TABLE].count) return 0;
  region = lds_model_region(w->model, m->region);
  if (region.kind != LDS_REGION_CONSTANTS) return 0;
  if (!lds_inside(m->dram_base, m->x_size, region.size_bytes / LDS_PLANE_WORD_BYTES)) return 0;
  from = w->model->section[LDS_DATA].bytes + region.data_offset + (size_t)m->dram_base * LDS_PLANE_WORD_BYTES;
  while (head < m->x_size) {
    const uint64_t counts = lds_get_u64(from + (size_t)head * LDS_PLANE_WORD_BYTES);
    uint32_t plane = (head + 1u) * PLANES;
    for (r = 0; r < LDS_PLANE_WEIGHTS; ++r) {
      plane += lds_plane_count(counts, r);
      found += plane <= m->x_size * PLANES;
    }
    head = (plane + PLANES - 1u) / PLANES;
  }
  return found >= rows;
}

/* What a LOAD writes, pads included. */
static int load(const walk *w, const lds_insn_memory *m) {
  static const uint8_t scratchpads[LDS_MEMORIES] = LDS_SCRATCHPADS;
  const uint32_t scratchpad = scratchpads[m->memory_id];
  const tiles *into = scratchpad == LDS_MEMORY_INP ? &w->inp : scratchpad == LDS_MEMORY_WGT ? &w->wgt : &w->acc;
  uint64_t count = m->y_size;
  if (m->x_size == 0) return LDS_OK;
  if (m->memory_id == LDS_MEMORY_UOP) return load_uops(w, m);
  if (m->memory_id == LDS_MEMORY_WGT_PLANES) return has_tiles(w, m) ? range(into, m->sram_base, count, 1) : LDS_OK;
  count = lds_area(m->y_pad_0 + m->y_size + m->y_pad_1, m->x_pad_0 + m->x_size + m->x_pad_1);
  if (m->memory_id == LDS_MEMORY_WGT_4BIT) count *= lds_group_tiles(&w->config);
  return range(into, m->sram_base, count, 1);
}

/* What an instruction of load or compute does. checks: and whether it reads what was written. */
static int execute(const walk *w, const lds_insn *insn, int checks) {
  switch (insn->opcode) {
    case LDS_OPCODE_LOAD:
      return load(w, &insn->u.memory);
    case LDS_OPCODE_GEMM:
      return gemm(w, &insn->u.gemm, checks);
    case LDS_OPCODE_DEPTHWISE:
      return depthwise(w, &insn->u.depthwise, checks);
    case LDS_OPCODE_ALU:
      return alu(w, &insn->u.alu, checks);
    case LDS_OPCODE_CONFIG:
    case LDS_OPCODE_FINISH:
      return LDS_OK;
    default:
      return LDS_ERR_INSTRUCTION; /* of which nothing is known here */
  }
}

/* What a STORE writes to INP. */
static int store_to_inp(const walk *w, const lds_insn_store *s) {
  const uint32_t size = words(w->inp.depth);
  const tiles row = {w->inp.depth, w->some};
  if (s->memory_id != LDS_MEMORY_INP || s->x_size == 0 || s->y_size == 0) return LDS_OK;
  if ((uint64_t)s->dram_base + lds_rows_extent(s->y_size, s->x_stride, s->x_size) > w->inp.depth) return LDS_ERR_SRAM;
  memset(w->some, 0, size * sizeof *w->some);
  (void)range(&row, s->dram_base, s->x_size, 1);
  repeat(w->some, size, s->y_size, s->x_stride);
  add(w->some, &w->inp);
  return LDS_OK;
}

static int store(const walk *w, const lds_insn_store *s) {
  int status;
  if (s->x_size == 0) return LDS_OK;
  status =
      range(s->requantize != 0 || s->memory_id == LDS_MEMORY_ACC ? &w->acc : &w->out, s->sram_base, (uint64_t)s->y_size * s->x_size, 0);
  if (status != LDS_OK || s->requantize == 0) return status;
  return range(&w->acc, s->operands, 3u * (uint64_t)(s->operand_step != 0 ? s->y_size : 1u), 0);
}

/* Follows a stage that sends tokens up to its push number `wanted`: what it did until then is certain. */
static int follow(walk *w, uint32_t stage, uint32_t wanted) {
  lds_insn insn;
  int status = LDS_OK;
  for (; w->sent[stage] < wanted && status == LDS_OK; ++w->behind[stage]) {
    if (w->behind[stage] == w->count) return LDS_ERR_TOKEN;
    status = at(w, w->behind[stage], &insn);
    if (status != LDS_OK || stage_of(&insn) != stage) continue;
    status = insn.opcode == LDS_OPCODE_STORE ? store_to_inp(w, &insn.u.store) : execute(w, &insn, 0);
    w->sent[stage] += stage == LDS_STAGE_STORE ? insn.flags.push_prev : insn.flags.push_next;
  }
  return status;
}

/* Checks the instructions of one stage in order, with what the stages that tell it have certainly done. */
static int check(walk *w, uint32_t stage, lds_fault *fault) {
  uint32_t before = 0, behind = 0, k;
  lds_insn insn;
  int status = LDS_OK;
  memset(w->behind, 0, sizeof w->behind);
  memset(w->sent, 0, sizeof w->sent);
  for (k = 0; k < w->count; ++k) {
    fault->instruction = k;
    status = at(w, k, &insn);
    if (status != LDS_OK) return status;
    if (stage_of(&insn) != stage) continue;
    before += insn.flags.pop_prev;
    behind += insn.flags.pop_next;
    status = follow(w, stage - 1u, before);
    if (status == LDS_OK && stage == LDS_STAGE_COMPUTE) status = follow(w, LDS_STAGE_STORE, behind);
    if (status == LDS_OK)
      status = stage == LDS_STAGE_STORE ? insn.opcode == LDS_OPCODE_STORE ? store(w, &insn.u.store) : LDS_OK : execute(w, &insn, 1);
    if (status != LDS_OK) return status;
  }
  return LDS_OK;
}

/* --- programs ---------------------------------------------------------------------------------------------------------------- */
static size_t all_words(const lds_hw_config *c) {
  const lds_isa_widths w = lds_isa_widths_of(c);
  const uint32_t most = lds_max_u32(lds_max_u32(w.li, w.lw), w.la);
  return (size_t)words((uint32_t)1 << w.li) + words((uint32_t)1 << w.lw) + 2u * words((uint32_t)1 << w.la) + words((uint32_t)1 << most) +
         c->uop_depth;
}

/* Whether scratchpads have sizes that a device can have. */
static int is_possible(const lds_hw_config *c) {
  const lds_isa_widths w = lds_isa_widths_of(c);
  return w.lu <= 13 && w.li <= 15 && w.lw <= 15 && w.la <= 15 && c->uop_depth <= (uint32_t)1 << w.lu;
}

static tiles cut(uint32_t **left, uint32_t log_depth) {
  tiles t;
  t.depth = (uint32_t)1 << log_depth;
  t.bits = *left;
  *left += words(t.depth);
  return t;
}

static int check_program(const lds_model *model, const lds_program *p, void *scratch, size_t scratch_bytes, lds_fault *fault) {
  uint32_t *left = scratch;
  uint32_t stage;
  int status = LDS_OK;
  walk w;
  w.model = model;
  w.code = model->section[LDS_CODE].bytes + p->offset_bytes;
  w.count = p->instructions;
  w.config = lds_config_of(model, p->device);
  if (!is_possible(&w.config)) return LDS_ERR_CONFIG;
  if (all_words(&w.config) * sizeof *left > scratch_bytes) return LDS_ERR_MEMORY;
  w.widths = lds_isa_widths_of(&w.config);
  for (stage = LDS_STAGE_COMPUTE; stage <= LDS_STAGE_STORE && status == LDS_OK; ++stage) {
    left = scratch;
    memset(scratch, 0, all_words(&w.config) * sizeof *left);
    w.inp = cut(&left, w.widths.li);
    w.wgt = cut(&left, w.widths.lw);
    w.acc = cut(&left, w.widths.la);
    w.out = cut(&left, w.widths.la);
    w.some = left;
    w.uop = left + words((uint32_t)1 << lds_max_u32(lds_max_u32(w.widths.li, w.widths.lw), w.widths.la));
    status = check(&w, stage, fault);
  }
  return status;
}

size_t lds_isolated_scratch_bytes(const lds_model *model) {
  size_t most = 0;
  uint32_t device;
  for (device = 0; device < model->section[LDS_DEVICES].count; ++device) {
    lds_hw_config c;
    if (lds_hashed_bytes(lds_model_fingerprint(model, device)) != LDS_CONFIGURATION_BYTES) continue;
    c = lds_config_of(model, device);
    if (is_possible(&c)) most = lds_size_max(most, all_words(&c) * sizeof(uint32_t));
  }
  return most;
}

int lds_model_isolated(const lds_model *model, void *scratch, size_t scratch_bytes, lds_fault *fault) {
  lds_fault ignored;
  uint32_t k;
  int status = LDS_OK;
  if (model == NULL || (scratch == NULL && scratch_bytes != 0)) return LDS_ERR_ARGUMENT;
  fault = fault != NULL ? fault : &ignored;
  memset(fault, 0, sizeof *fault);
  for (k = 0; k < model->section[LDS_STEPS].count && status == LDS_OK; ++k) {
    lds_program p;
    if (lds_model_step(model, k).kind != LDS_STEP_PROGRAM) continue;
    lds_program_at(model, k, &p);
    if (lds_hashed_bytes(lds_model_fingerprint(model, p.device)) == LDS_CONFIGURATION_BYTES) {
      status = check_program(model, &p, scratch, scratch_bytes, fault);
    } else {
      status = LDS_ERR_ACCELERATOR; /* its table does not say what its memories keep */
    }
    if (status != LDS_OK) lds_fault_at(model, k, fault->instruction, fault);
  }
  fault->status = status;
  return status;
}
