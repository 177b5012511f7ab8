/* The validator: what a stream of instructions must be before a device may have it.
 *
 * In:   pinned instructions, the content of constants, the memory plan and the device's configuration from the artifact.
 * Out:  LDS_OK, or the first instruction that is refused, and why.
 * Next: session.c hands the stream to the device.
 *
 * An allow-list: what is not known is refused. The stream is straight, so it is walked once, in its order:
 *   - fields: known opcode, memory, operation, register; no reserved bit; the capabilities that it takes;
 *   - DRAM: all rows of a LOAD or STORE in their region, in 64-bit arithmetic; stores only where the device writes;
 *   - scratchpads: everything that loads, stores and loops reach. Which micro-ops stand in the scratchpad is known at each point,
 *     because they are loaded from constants only;
 *   - tokens: see below;
 *   - FINISH last, after load and store are through.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "geometry.h"

/* The four token queues, by who pushes and who pops. */
enum { LOAD_TO_COMPUTE, COMPUTE_TO_LOAD, COMPUTE_TO_STORE, STORE_TO_COMPUTE, QUEUES, NO_QUEUE = QUEUES };
enum { RING = 256 };

/* Pops that have certainly happened, per queue. */
typedef struct clock {
  uint32_t pops[QUEUES];
} clock;

typedef struct reach {
  uint32_t dst, src, wgt;
} reach;

typedef struct walk {
  const lds_model *model;
  const uint8_t *const *constants;
  lds_hw_config config;
  lds_isa_widths widths;
  uint32_t regions;
  lds_region region[LDS_REGIONS];
  uint32_t reach_begin, reach_end; /* the range that `reach` is of; empty: none */
  reach reach;
  uint32_t pushes[QUEUES], pops[QUEUES];
  clock known[3];      /* per stage */
  uint8_t drained[3];  /* per stage: the last instruction pushes to compute */
  clock (*ring)[RING]; /* per queue: what the pusher of each waiting token knew */
  uint32_t *uop;       /* micro-op scratchpad */
  uint32_t *loaded;    /* a bit for each micro-op */
} walk;

static uint32_t words_of(uint32_t bits) { return (bits + 31u) / 32u; }

static uint32_t uop_depth(const lds_model *model) { return lds_u32(model->bytes + 28); }

/* The rings, the micro-ops, a bit for each. uop_depth is at most 2^13 in a configuration that can be. */
size_t lds_validate_scratch_bytes(const lds_model *model) {
  const size_t depth = uop_depth(model) <= 1u << 13 ? uop_depth(model) : 0u;
  return sizeof(clock[QUEUES][RING]) + sizeof(uint32_t) * (depth + words_of((uint32_t)depth));
}

/* --- tokens ------------------------------------------------------------------------------------------------------------------
 * In the stream's order every pop must find a token. Then the device cannot deadlock, however short its queues are: the
 * first instruction that is not done always has its tokens. How many tokens wait at once depends on how far one stage runs
 * ahead of another: at most the pushes so far less the pops that have certainly happened before this push. Those are found
 * with vector clocks: a stage knows of its own pops, and learns what the pusher of each token it pops knew. */
static const uint8_t pop_prev_of[3] = {NO_QUEUE, LOAD_TO_COMPUTE, COMPUTE_TO_STORE};
static const uint8_t pop_next_of[3] = {COMPUTE_TO_LOAD, STORE_TO_COMPUTE, NO_QUEUE};
static const uint8_t push_prev_of[3] = {NO_QUEUE, COMPUTE_TO_LOAD, STORE_TO_COMPUTE};
static const uint8_t push_next_of[3] = {LOAD_TO_COMPUTE, COMPUTE_TO_STORE, NO_QUEUE};

static int pop(walk *w, uint32_t stage, uint32_t queue) {
  const clock *learned;
  unsigned q;
  if (queue == NO_QUEUE || w->pops[queue] == w->pushes[queue]) return LDS_ERR_TOKEN;
  learned = &w->ring[queue][w->pops[queue] % RING];
  for (q = 0; q < QUEUES; ++q) w->known[stage].pops[q] = lds_max_u32(w->known[stage].pops[q], learned->pops[q]);
  w->known[stage].pops[queue] = ++w->pops[queue];
  return LDS_OK;
}

static int push(walk *w, uint32_t stage, uint32_t queue) {
  if (queue == NO_QUEUE || w->pushes[queue] - w->known[stage].pops[queue] >= LDS_MAX_TOKENS) return LDS_ERR_TOKEN;
  w->ring[queue][w->pushes[queue]++ % RING] = w->known[stage];
  return LDS_OK;
}

static int tokens(walk *w, uint32_t stage, lds_insn_flags f) {
  int status = LDS_OK;
  if (f.pop_prev != 0) status = pop(w, stage, pop_prev_of[stage]);
  if (f.pop_next != 0 && status == LDS_OK) status = pop(w, stage, pop_next_of[stage]);
  if (f.push_prev != 0 && status == LDS_OK) status = push(w, stage, push_prev_of[stage]);
  if (f.push_next != 0 && status == LDS_OK) status = push(w, stage, push_next_of[stage]);
  w->drained[stage] = stage == LDS_STAGE_LOAD ? f.push_next : f.push_prev;
  return status;
}

/* --- LOAD and STORE ---------------------------------------------------------------------------------------------------------- */
static int has(const walk *w, uint32_t capability) { return (w->config.capabilities & capability) != 0; }

static uint32_t depth_of(const walk *w, uint32_t memory) {
  switch (memory) {
    case LDS_MEMORY_UOP:
      return w->config.uop_depth;
    case LDS_MEMORY_WGT:
      return (uint32_t)1 << w->widths.lw;
    case LDS_MEMORY_INP:
      return (uint32_t)1 << w->widths.li;
    default:
      return (uint32_t)1 << w->widths.la;
  }
}

static int memory_fields(const walk *w, const lds_insn_memory *m, int store) {
  const uint32_t pads = m->y_pad_0 | m->y_pad_1 | m->x_pad_0 | m->x_pad_1;
  const int padless = store || m->memory_id == LDS_MEMORY_UOP || m->memory_id == LDS_MEMORY_WGT;
  if (m->x_size == 0) { /* a no-op is zeros; a STORE's memory too */
    if ((m->sram_base | m->dram_base | m->region | m->y_size | m->x_stride | pads) != 0) return LDS_ERR_INSTRUCTION;
    return store == (m->memory_id == LDS_MEMORY_OUT) || (store && m->memory_id == 0) ? LDS_OK : LDS_ERR_INSTRUCTION;
  }
  if (store != (m->memory_id == LDS_MEMORY_OUT) || m->y_size == 0 || (padless && pads != 0)) return LDS_ERR_INSTRUCTION;
  if (m->memory_id == LDS_MEMORY_ACC_8BIT && !has(w, LDS_CAP_LOAD_ACC8)) return LDS_ERR_INSTRUCTION;
  return m->memory_id == LDS_MEMORY_UOP && m->y_size != 1 ? LDS_ERR_INSTRUCTION : LDS_OK;
}

static int in_region(const walk *w, const lds_insn_memory *m, int store) {
  const uint32_t needed = store ? LDS_DMA_DEVICE_WRITES : LDS_DMA_DEVICE_READS;
  const uint64_t end = lds_rows_end(m->dram_base, m->y_size, m->x_stride, m->x_size);
  if (m->region >= w->regions || (w->region[m->region].flags & needed) == 0) return LDS_ERR_DRAM;
  return lds_tiles_inside(end, (uint32_t)1 << lds_log_tile_bytes(&w->config, m->memory_id), w->region[m->region].size_bytes) ? LDS_OK
                                                                                                                             : LDS_ERR_DRAM;
}

static int in_scratchpad(const walk *w, const lds_insn_memory *m) {
  const uint32_t rows = m->y_pad_0 + m->y_size + m->y_pad_1, width = m->x_pad_0 + m->x_size + m->x_pad_1;
  return lds_area_inside(m->sram_base, rows, width, depth_of(w, m->memory_id)) ? LDS_OK : LDS_ERR_SRAM;
}

/* Micro-ops enter the model of the scratchpad; they come from where nobody writes. */
static int load_uops(walk *w, const lds_insn_memory *m) {
  const uint8_t *from = w->constants[m->region];
  uint32_t k;
  if (w->region[m->region].kind != LDS_REGION_CONSTANTS || from == NULL) return LDS_ERR_UOP;
  from += (size_t)m->dram_base * LDS_UOP_BYTES;
  for (k = 0; k < m->x_size; ++k) {
    const uint32_t at = m->sram_base + k;
    w->uop[at] = lds_u32(from + k * LDS_UOP_BYTES);
    w->loaded[at / 32u] |= (uint32_t)1 << at % 32u;
  }
  w->reach_end = 0;
  return LDS_OK;
}

static int check_memory(walk *w, const lds_insn_memory *m, int store) {
  int status = memory_fields(w, m, store);
  if (status != LDS_OK || m->x_size == 0) return status;
  status = in_region(w, m, store);
  if (status == LDS_OK) status = in_scratchpad(w, m);
  return status == LDS_OK && m->memory_id == LDS_MEMORY_UOP ? load_uops(w, m) : status;
}

/* --- GEMM and ALU ------------------------------------------------------------------------------------------------------------ */
/* The largest indices in micro-ops [begin, end), all of which must be there. The last answer is kept. */
static int find_reach(walk *w, uint32_t begin, uint32_t end) {
  reach most = {0, 0, 0};
  uint32_t k;
  if (begin >= end || end > w->config.uop_depth) return LDS_ERR_UOP;
  if (w->reach_end == end && w->reach_begin == begin) return LDS_OK;
  for (k = begin; k < end; ++k) {
    const lds_uop u = lds_uop_decode(w->widths, w->uop[k]);
    if ((w->loaded[k / 32u] >> k % 32u & 1u) == 0) return LDS_ERR_UOP;
    most.dst = lds_max_u32(most.dst, u.dst);
    most.src = lds_max_u32(most.src, u.src);
    most.wgt = lds_max_u32(most.wgt, u.wgt);
  }
  w->reach = most;
  w->reach_begin = begin;
  w->reach_end = end;
  return LDS_OK;
}

static int check_gemm(walk *w, const lds_insn_gemm *g) {
  int status;
  if (g->iter_out == 0 || g->iter_in == 0 || (g->reset != 0 && g->overwrite != 0)) return LDS_ERR_INSTRUCTION;
  if (g->overwrite != 0 && !has(w, LDS_CAP_GEMM_OVERWRITE)) return LDS_ERR_INSTRUCTION;
  status = find_reach(w, g->uop_bgn, g->uop_end);
  if (status != LDS_OK) return status;
  if (!lds_loops_inside(w->reach.dst, g->iter_out, g->dst_out, g->iter_in, g->dst_in, 0, depth_of(w, LDS_MEMORY_ACC))) return LDS_ERR_SRAM;
  if (!lds_loops_inside(w->reach.src, g->iter_out, g->src_out, g->iter_in, g->src_in, 0, depth_of(w, LDS_MEMORY_INP))) return LDS_ERR_SRAM;
  if (!lds_loops_inside(w->reach.wgt, g->iter_out, g->wgt_out, g->iter_in, g->wgt_in, 0, depth_of(w, LDS_MEMORY_WGT))) return LDS_ERR_SRAM;
  return LDS_OK;
}

static int check_alu(walk *w, const lds_insn_alu *a) {
  const uint32_t depth = depth_of(w, LDS_MEMORY_ACC), more = a->alu_op == LDS_ALU_RQ ? 2u : 0u;
  int status;
  if (a->iter_out == 0 || a->iter_in == 0 || a->reset != 0) return LDS_ERR_INSTRUCTION;
  if (a->alu_op == LDS_ALU_MUL && !has(w, LDS_CAP_ALU_MUL)) return LDS_ERR_INSTRUCTION;
  if (a->alu_op == LDS_ALU_RQ && (a->use_imm != 0 || !has(w, LDS_CAP_REQUANTIZE))) return LDS_ERR_INSTRUCTION;
  status = find_reach(w, a->uop_bgn, a->uop_end);
  if (status != LDS_OK) return status;
  if (!lds_loops_inside(w->reach.dst, a->iter_out, a->dst_out, a->iter_in, a->dst_in, 0, depth)) return LDS_ERR_SRAM;
  if (!lds_loops_inside(w->reach.src, a->iter_out, a->src_out, a->iter_in, a->src_in, more, depth)) return LDS_ERR_SRAM;
  return LDS_OK;
}

/* --- CONFIG, FINISH ---------------------------------------------------------------------------------------------------------- */
static int check_config(const walk *w, const lds_insn_config *c) {
  if (!has(w, LDS_CAP_CONFIG) || c->stage == LDS_STAGE_STORE) return LDS_ERR_INSTRUCTION;
  if (c->register_id == LDS_CONFIG_PAD_VALUE) return c->value >= -128 && c->value <= 127 ? LDS_OK : LDS_ERR_INSTRUCTION;
  if (c->stage != LDS_STAGE_COMPUTE) return LDS_ERR_INSTRUCTION;
  return c->register_id == LDS_CONFIG_RQ_ROUNDING && (uint32_t)c->value > LDS_ROUNDING_FLOAT32 ? LDS_ERR_INSTRUCTION : LDS_OK;
}

/* Nothing is left over: no token waits, and the last instructions of load and store have told compute that they are done. */
static int check_finish(const walk *w) {
  unsigned q;
  for (q = 0; q < QUEUES; ++q) {
    if (w->pushes[q] != w->pops[q]) return LDS_ERR_TOKEN;
  }
  return w->drained[LDS_STAGE_LOAD] != 0 && w->drained[LDS_STAGE_STORE] != 0 ? LDS_OK : LDS_ERR_FINISH;
}

/* --- the walk ---------------------------------------------------------------------------------------------------------------- */
static uint32_t stage_of(const lds_insn *i) {
  switch (i->opcode) {
    case LDS_OPCODE_LOAD:
      return i->u.memory.memory_id == LDS_MEMORY_INP || i->u.memory.memory_id == LDS_MEMORY_WGT ? LDS_STAGE_LOAD : LDS_STAGE_COMPUTE;
    case LDS_OPCODE_STORE:
      return LDS_STAGE_STORE;
    case LDS_OPCODE_CONFIG:
      return i->u.config.stage;
    default:
      return LDS_STAGE_COMPUTE;
  }
}

static int check_fields(walk *w, const lds_insn *i) {
  switch (i->opcode) {
    case LDS_OPCODE_LOAD:
      return check_memory(w, &i->u.memory, 0);
    case LDS_OPCODE_STORE:
      return check_memory(w, &i->u.memory, 1);
    case LDS_OPCODE_GEMM:
      return check_gemm(w, &i->u.gemm);
    case LDS_OPCODE_ALU:
      return check_alu(w, &i->u.alu);
    case LDS_OPCODE_CONFIG:
      return check_config(w, &i->u.config);
    default:
      return LDS_OK;
  }
}

static int check(walk *w, const uint8_t *bytes, int last) {
  lds_insn insn;
  int status;
  if (lds_insn_decode(w->widths, bytes, &insn) != LDS_ISA_OK) return LDS_ERR_INSTRUCTION;
  if ((insn.opcode == LDS_OPCODE_FINISH) != last) return LDS_ERR_FINISH;
  status = check_fields(w, &insn);
  if (status == LDS_OK) status = tokens(w, stage_of(&insn), insn.flags);
  return status == LDS_OK && last ? check_finish(w) : status;
}

/* Whether a device can have this configuration: HwConfig's limits. Everything above relies on them. */
static int config_is_possible(const lds_hw_config *c) {
  const lds_isa_widths w = lds_isa_widths_of(c);
  if (c->log_inp_width != 3 || c->log_wgt_width != 3 || c->log_acc_width != 5 || c->log_batch > 6 || c->log_block < 1 || c->log_block > 7)
    return 0;
  if (w.lu < 1 || w.lu > 13 || w.li < 1 || w.li > 15 || w.lw < 1 || w.lw > 15 || w.la < 1 || w.la > 11) return 0;
  if (w.la + w.li + w.lw > 32 || w.la + lds_max_u32(w.la, w.li) + w.lw > 32) return 0;
  return c->uop_depth >= 1 && c->uop_depth <= (uint32_t)1 << w.lu;
}

static int begin(walk *w, const lds_model *model, const uint8_t *const *constants, void *scratch) {
  uint32_t r;
  memset(w, 0, sizeof *w);
  memset(scratch, 0, lds_validate_scratch_bytes(model));
  w->config = lds_config_of(model);
  if (!config_is_possible(&w->config)) return LDS_ERR_CONFIG;
  w->model = model;
  w->constants = constants;
  w->widths = lds_isa_widths_of(&w->config);
  w->ring = scratch;
  w->uop = (uint32_t *)(void *)(w->ring + QUEUES);
  w->loaded = w->uop + w->config.uop_depth;
  w->drained[LDS_STAGE_LOAD] = w->drained[LDS_STAGE_STORE] = 1;
  w->regions = model->section[LDS_REGION_TABLE].count;
  for (r = 0; r < w->regions; ++r) w->region[r] = lds_model_region(model, r);
  return LDS_OK;
}

int lds_validate(const lds_model *model, const uint8_t *instructions, uint32_t count, const uint8_t *const *constants, void *scratch,
                 lds_fault *fault) {
  walk w;
  uint32_t k;
  int status = begin(&w, model, constants, scratch);
  for (k = 0; k < count && status == LDS_OK; ++k) {
    status = check(&w, instructions + (size_t)k * LDS_INSN_BYTES, k + 1u == count);
    fault->instruction = k;
  }
  return status;
}
