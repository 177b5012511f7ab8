/* The validator: checks a stream of instructions before it is submitted to a device.
 *
 * In:   pinned instructions, the content of constants, the memory plan and the device's configuration from the artifact.
 * Out:  LDS_OK, or the first instruction that is refused, and why.
 * Next: session.c hands the stream to the device.
 *
 * It is an allow-list: everything unknown is refused. A stream has no branches, so it is walked once, in order. An instruction consists
 * of a shape and a place. The shape (sizes, strides, loops, operation, region) is checked against all rules once, which gives limits for
 * the place; a program has thousands of instructions but only some hundred shapes, so the shapes already checked are cached.
 *   - shape: known opcode, memory, operation, register; no reserved bit; the capabilities that it needs; a region that exists;
 *   - place in DRAM: all rows of a LOAD or STORE in their region, in 64-bit arithmetic; stores only where the device writes;
 *   - place in scratchpads: everything that loads, stores and loops access. The micro-ops in the scratchpad are known at each
 *     point, because they are loaded from constants only;
 *   - tokens: see below;
 *   - FINISH is last, after load and store have completed.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "geometry.h"

enum { QUEUES = LDS_QUEUES, NO_QUEUE = LDS_QUEUES };
enum { RING = 256, SHAPES = 128, LOG_SLOTS = 8, SLOTS = 1 << LOG_SLOTS, OPCODES = 8, MEMORIES = 8 };

/* The data that a LOAD or STORE moves: tiles; tiles from ACC to INP; micro-ops; nothing, in which case its place must be 0. */
enum { TILES, TO_INP, UOPS, NO_OP };

/* The operand tiles of a requantization. */
enum { RQ_TILES = 3 };

typedef struct shape {
  uint64_t key[2];   /* the instruction, with ones for its place and flags; zeros: none */
  uint64_t below[3]; /* limits: LOAD, STORE: of dram_base, sram_base; GEMM, ALU, DEPTHWISE: of dst, src, wgt at their bits of a micro-op */
  uint8_t stage, moves;
} shape;

typedef struct walk {
  const uint8_t *const *constants;
  lds_hw_config config;
  lds_isa_widths widths;
  uint64_t place[OPCODES];             /* per opcode: the bits of place and flags in word 0 */
  uint32_t uop_bgn_mask, uop_end_mask; /* of the micro-op range in GEMM, ALU and DEPTHWISE */
  uint32_t uop_end_bit;
  uint32_t depth[MEMORIES];                     /* tiles of each scratchpad */
  uint8_t log_tile_bytes[MEMORIES];             /* the size of one in DRAM */
  uint8_t row_bases[MEMORIES], fills[MEMORIES]; /* what one of x_size stands for: steps of dram_base; tiles of the scratchpad */
  uint32_t regions;
  lds_region region[LDS_REGIONS];
  uint32_t field[3], unit[3];                    /* of dst, src, wgt in a micro-op: all bits, the lowest */
  uint32_t pushes[QUEUES + 1], pops[QUEUES + 1]; /* NO_QUEUE is always empty, and always full */
  uint32_t known[QUEUES + 1];                    /* pops of each queue that its pusher can be sure of */
  uint64_t latest[3];                            /* per stage: word 0 of its last instruction */
  uint8_t *slots;                                /* by a shape's key, its place in `shapes`; 0: none */
  shape *shapes;
  uint32_t next;          /* of shapes: the entry that is replaced next, 1 to SHAPES - 1 */
  uint32_t (*ring)[RING]; /* per queue: the pop count that each waiting token carries */
  uint32_t *uop;          /* micro-op scratchpad; an entry is valid only where it was loaded */
  uint32_t filled;        /* all micro-ops below this index are loaded */
  uint32_t gaps;          /* 1: some at or above it are loaded too; `loaded` says which */
  uint8_t *loaded;        /* per micro-op from `filled` on: 1 where loaded */
} walk;

static uint32_t uop_depth(const lds_model *model, uint32_t device) { return lds_u32(lds_model_fingerprint(model, device) + 12); }

/* Shapes, where they are, rings, micro-ops, a byte for each. uop_depth is at most 2^13 in a valid configuration. */
size_t lds_validate_scratch_bytes(const lds_model *model, uint32_t device) {
  const size_t depth = uop_depth(model, device) <= 1u << 13 ? uop_depth(model, device) : 0u;
  return sizeof(shape[SHAPES]) + SLOTS + sizeof(uint32_t[QUEUES][RING]) + depth * (sizeof(uint32_t) + 1u);
}

/* Bits [first, end) of a word: 1 to 32. */
static uint32_t bits_between(uint64_t word, uint32_t first, uint32_t end) {
  return (uint32_t)(word >> first) & UINT32_MAX >> (32u - (end - first));
}

/* --- tokens ------------------------------------------------------------------------------------------------------------------
 * In the stream's order every pop must find a token. Then the device cannot deadlock, however short its queues are: the
 * first instruction that is not done always has its tokens. How many tokens wait at once depends on how far one stage runs
 * ahead of another: at most the pushes so far less the pops that have certainly happened before this push. A stage learns of its
 * neighbour's pops from the tokens that the neighbour sends: each carries how often its pusher had popped the opposite queue.
 * There is no other path: load and store learn of each other through compute only. */
static const uint8_t pop_prev_of[3] = LDS_QUEUE_OF_POP_PREV;
static const uint8_t pop_next_of[3] = LDS_QUEUE_OF_POP_NEXT;
static const uint8_t push_prev_of[3] = LDS_QUEUE_OF_PUSH_PREV;
static const uint8_t push_next_of[3] = LDS_QUEUE_OF_PUSH_NEXT;
static const uint8_t load_stage_of[LDS_MEMORIES] = LDS_LOAD_STAGES;

static int pop(walk *w, uint32_t queue) {
  if (w->pops[queue] == w->pushes[queue]) return LDS_ERR_TOKEN;
  w->known[queue ^ 1u] = w->ring[queue][w->pops[queue]++ % RING];
  return LDS_OK;
}

static int push(walk *w, uint32_t queue) {
  if (w->pushes[queue] - w->known[queue] >= LDS_MAX_TOKENS) return LDS_ERR_TOKEN;
  w->ring[queue][w->pushes[queue]++ % RING] = w->pops[queue ^ 1u];
  return LDS_OK;
}

static int tokens(walk *w, uint32_t stage, uint64_t word) {
  w->latest[stage] = word;
  if ((word >> LDS_BIT_POP_PREV & 1u) != 0 && pop(w, pop_prev_of[stage]) != LDS_OK) return LDS_ERR_TOKEN;
  if ((word >> LDS_BIT_POP_NEXT & 1u) != 0 && pop(w, pop_next_of[stage]) != LDS_OK) return LDS_ERR_TOKEN;
  if ((word >> LDS_BIT_PUSH_PREV & 1u) != 0 && push(w, push_prev_of[stage]) != LDS_OK) return LDS_ERR_TOKEN;
  if ((word >> LDS_BIT_PUSH_NEXT & 1u) != 0 && push(w, push_next_of[stage]) != LDS_OK) return LDS_ERR_TOKEN;
  return LDS_OK;
}

/* At the end no token may be waiting, and the last instructions of load and store must have sent compute their tokens. */
static int check_finish(const walk *w) {
  unsigned q;
  for (q = 0; q < QUEUES; ++q) {
    if (w->pushes[q] != w->pops[q]) return LDS_ERR_TOKEN;
  }
  if ((w->latest[LDS_STAGE_LOAD] >> LDS_BIT_PUSH_NEXT & 1u) == 0) return LDS_ERR_FINISH;
  return (w->latest[LDS_STAGE_STORE] >> LDS_BIT_PUSH_PREV & 1u) != 0 ? LDS_OK : LDS_ERR_FINISH;
}

/* --- shapes ------------------------------------------------------------------------------------------------------------------ */
static int has(const walk *w, uint32_t capability) { return (w->config.capabilities & capability) != 0; }

/* The exclusive limit of the first tile of a LOAD or STORE in its region; 0 where it may not access the region. */
static uint32_t dram_places(const walk *w, const lds_insn_memory *m, int store) {
  const uint32_t needed = store ? LDS_DMA_DEVICE_WRITES : LDS_DMA_DEVICE_READS;
  const lds_region *r = &w->region[m->region];
  if (m->region >= w->regions || (r->flags & needed) == 0) return 0;
  return lds_places(r->size_bytes >> w->log_tile_bytes[m->memory_id],
                    lds_items(lds_rows_extent(m->y_size, m->x_stride, m->x_size), w->row_bases[m->memory_id]));
}

static int shape_load(const walk *w, const lds_insn_memory *m, shape *s) {
  const uint32_t pads = m->y_pad_0 | m->y_pad_1 | m->x_pad_0 | m->x_pad_1;
  const int planes = m->memory_id == LDS_MEMORY_WGT_PLANES;
  const int padless = m->memory_id == LDS_MEMORY_UOP || m->memory_id == LDS_MEMORY_WGT || m->memory_id == LDS_MEMORY_WGT_4BIT || planes;
  s->stage = load_stage_of[m->memory_id];
  s->moves = m->x_size == 0 ? NO_OP : m->memory_id == LDS_MEMORY_UOP ? UOPS : TILES;
  if (m->memory_id == LDS_MEMORY_ACC_8BIT && !has(w, LDS_CAP_LOAD_ACC8)) return LDS_ERR_INSTRUCTION;
  if (m->memory_id == LDS_MEMORY_WGT_4BIT && !has(w, LDS_CAP_WEIGHTS4)) return LDS_ERR_INSTRUCTION;
  if (planes && (!has(w, LDS_CAP_WEIGHT_CODE) || m->x_stride != 0)) return LDS_ERR_INSTRUCTION;
  if (m->memory_id == LDS_MEMORY_OUT) return LDS_ERR_INSTRUCTION;
  if (m->x_size == 0) return (m->region | m->y_size | m->x_stride | pads) == 0 ? LDS_OK : LDS_ERR_INSTRUCTION;
  if (m->y_size == 0 || (padless && pads != 0)) return LDS_ERR_INSTRUCTION;
  if (m->memory_id == LDS_MEMORY_UOP && m->y_size != 1) return LDS_ERR_INSTRUCTION;
  s->below[0] = dram_places(w, m, 0);
  s->below[1] = lds_places(
      w->depth[m->memory_id],
      lds_items(lds_area(m->y_pad_0 + m->y_size + m->y_pad_1, planes ? 1u : m->x_pad_0 + m->x_size + m->x_pad_1), w->fills[m->memory_id]));
  return LDS_OK;
}

/* The operand tiles of a STORE that requantizes: three, or three for each row. */
static int check_operands(const walk *w, const lds_insn_store *i) {
  if (i->requantize == 0) return (i->operands | i->operand_step) == 0 ? LDS_OK : LDS_ERR_INSTRUCTION;
  if (i->x_size == 0 || i->y_size == 0 || !has(w, LDS_CAP_STORE_REQUANTIZE)) return LDS_ERR_INSTRUCTION;
  return i->operands < lds_places(w->depth[LDS_MEMORY_ACC], lds_rows_extent(i->y_size, i->operand_step * RQ_TILES, RQ_TILES))
             ? LDS_OK
             : LDS_ERR_SRAM;
}

static int shape_store(const walk *w, const lds_insn *insn, shape *s) {
  const lds_insn_memory *m = &insn->u.memory; /* the fields that LOAD and STORE begin with */
  const int status = check_operands(w, &insn->u.store);
  s->stage = LDS_STAGE_STORE;
  s->moves = m->x_size == 0 ? NO_OP : m->memory_id == LDS_MEMORY_INP ? TO_INP : TILES;
  if (status == LDS_ERR_INSTRUCTION) return status;
  if (m->x_size == 0) { /* zeros; its memory too */
    if ((m->region | m->y_size | m->x_stride) != 0) return LDS_ERR_INSTRUCTION;
    return m->memory_id == LDS_MEMORY_OUT || m->memory_id == 0 ? LDS_OK : LDS_ERR_INSTRUCTION;
  }
  if (m->memory_id == LDS_MEMORY_ACC && (!has(w, LDS_CAP_STORE_ACC) || insn->u.store.requantize != 0)) return LDS_ERR_INSTRUCTION;
  if (m->y_size == 0 || (s->moves == TILES && m->memory_id != LDS_MEMORY_OUT && m->memory_id != LDS_MEMORY_ACC)) return LDS_ERR_INSTRUCTION;
  if (s->moves == TO_INP && (!has(w, LDS_CAP_STORE_INP) || m->region != 0)) return LDS_ERR_INSTRUCTION;
  s->below[0] =
      s->moves == TO_INP ? lds_places(w->depth[LDS_MEMORY_INP], lds_rows_extent(m->y_size, m->x_stride, m->x_size)) : dram_places(w, m, 1);
  s->below[1] = status == LDS_OK ? lds_places(w->depth[LDS_MEMORY_OUT], lds_area(m->y_size, m->x_size)) : 0;
  return LDS_OK;
}

static int shape_gemm(const walk *w, const lds_insn_gemm *g, shape *s) {
  s->stage = LDS_STAGE_COMPUTE;
  if (g->iter_out == 0 || g->iter_in == 0 || (g->reset != 0 && g->overwrite != 0)) return LDS_ERR_INSTRUCTION;
  if (g->overwrite != 0 && !has(w, LDS_CAP_GEMM_OVERWRITE)) return LDS_ERR_INSTRUCTION;
  s->below[0] =
      (uint64_t)w->unit[0] * lds_places(w->depth[LDS_MEMORY_ACC], lds_loops_extent(g->iter_out, g->dst_out, g->iter_in, g->dst_in, 0));
  s->below[1] =
      (uint64_t)w->unit[1] * lds_places(w->depth[LDS_MEMORY_INP], lds_loops_extent(g->iter_out, g->src_out, g->iter_in, g->src_in, 0));
  s->below[2] =
      (uint64_t)w->unit[2] * lds_places(w->depth[LDS_MEMORY_WGT], lds_loops_extent(g->iter_out, g->wgt_out, g->iter_in, g->wgt_in, 0));
  return LDS_OK;
}

static int shape_alu(const walk *w, const lds_insn_alu *a, shape *s) {
  const uint32_t depth = w->depth[LDS_MEMORY_ACC], more = a->alu_op == LDS_ALU_RQ ? 2u : 0u;
  s->stage = LDS_STAGE_COMPUTE;
  if (a->iter_out == 0 || a->iter_in == 0 || a->reset != 0) return LDS_ERR_INSTRUCTION;
  if (a->alu_op == LDS_ALU_MUL && !has(w, LDS_CAP_ALU_MUL)) return LDS_ERR_INSTRUCTION;
  if (a->alu_op == LDS_ALU_SHR && lds_is_float(&w->config)) return LDS_ERR_INSTRUCTION;
  if (a->alu_op == LDS_ALU_RQ && (a->use_imm != 0 || !has(w, LDS_CAP_REQUANTIZE))) return LDS_ERR_INSTRUCTION;
  s->below[0] = (uint64_t)w->unit[0] * lds_places(depth, lds_loops_extent(a->iter_out, a->dst_out, a->iter_in, a->dst_in, 0));
  s->below[1] = (uint64_t)w->unit[1] * lds_places(depth, lds_loops_extent(a->iter_out, a->src_out, a->iter_in, a->src_in, more));
  s->below[2] = UINT64_MAX; /* ALU has no wgt */
  return LDS_OK;
}

static int shape_depthwise(const walk *w, const lds_insn_depthwise *d, shape *s) {
  const uint32_t reach = (d->rows - 1u) * d->row_stride + d->columns - 1u;
  s->stage = LDS_STAGE_COMPUTE;
  if (d->iter_out == 0 || d->iter_in == 0 || !has(w, LDS_CAP_DEPTHWISE)) return LDS_ERR_INSTRUCTION;
  if (d->overwrite != 0 && !has(w, LDS_CAP_GEMM_OVERWRITE)) return LDS_ERR_INSTRUCTION;
  if (d->rows == 0 || d->rows > lds_window_rows((uint32_t)1 << w->config.log_block)) return LDS_ERR_INSTRUCTION;
  if (d->columns == 0 || d->columns > LDS_WINDOW_COLUMNS) return LDS_ERR_INSTRUCTION;
  s->below[0] =
      (uint64_t)w->unit[0] * lds_places(w->depth[LDS_MEMORY_ACC], lds_loops_extent(d->iter_out, d->dst_out, d->iter_in, d->dst_in, 0));
  s->below[1] =
      (uint64_t)w->unit[1] * lds_places(w->depth[LDS_MEMORY_INP], lds_loops_extent(d->iter_out, d->src_out, d->iter_in, d->src_in, reach));
  s->below[2] = (uint64_t)w->unit[2] * lds_places(w->depth[LDS_MEMORY_WGT], lds_loops_extent(d->iter_out, d->wgt_out, 1, 0, 0));
  return LDS_OK;
}

static int shape_config(const walk *w, const lds_insn_config *c, shape *s) {
  const int32_t limit = lds_is_float(&w->config) ? 32768 : 128; /* of a signed number with an element's bits */
  s->stage = (uint8_t)c->stage;
  if (!has(w, LDS_CAP_CONFIG) || (c->stage == LDS_STAGE_STORE && !has(w, LDS_CAP_STORE_REQUANTIZE))) return LDS_ERR_INSTRUCTION;
  if (c->register_id == LDS_CONFIG_PAD_VALUE && c->stage != LDS_STAGE_STORE)
    return c->value >= -limit && c->value < limit ? LDS_OK : LDS_ERR_INSTRUCTION;
  if (c->stage == LDS_STAGE_LOAD || c->register_id == LDS_CONFIG_PAD_VALUE) return LDS_ERR_INSTRUCTION;
  return c->register_id == LDS_CONFIG_RQ_ROUNDING && (uint32_t)c->value > LDS_ROUNDING_FLOAT32 ? LDS_ERR_INSTRUCTION : LDS_OK;
}

/* Whether the bytes encode an instruction: every value is known, and no bit remains in the words once all fields are extracted. */
static int is_sound(int decoded, const uint64_t left[2]) { return decoded == LDS_ISA_OK && (left[0] | left[1]) == 0; }

/* Checks an instruction against the rules, except those of place and tokens; *s is its shape if it passes. The decoder of lds_insn_decode
 * is repeated with the rules in the same switch, because the order of new shapes in a program defeats branch prediction. */
static int learn(const walk *w, const uint8_t *bytes, int last, shape *s) {
  uint64_t word[2] = {lds_get_u64(bytes) >> (LDS_BIT_PUSH_NEXT + 1u), lds_get_u64(bytes + 8)};
  const uint32_t opcode = bytes[0] & (OPCODES - 1u);
  lds_insn i;
  switch (opcode) {
    case LDS_OPCODE_LOAD:
      if (!is_sound(lds_decode_memory(w->widths, word, &i.u.memory), word)) return LDS_ERR_INSTRUCTION;
      return last ? LDS_ERR_FINISH : shape_load(w, &i.u.memory, s);
    case LDS_OPCODE_STORE:
      if (!is_sound(lds_decode_store(w->widths, word, &i.u.store), word)) return LDS_ERR_INSTRUCTION;
      return last ? LDS_ERR_FINISH : shape_store(w, &i, s);
    case LDS_OPCODE_GEMM:
      if (!is_sound(lds_decode_gemm(w->widths, word, &i.u.gemm), word)) return LDS_ERR_INSTRUCTION;
      return last ? LDS_ERR_FINISH : shape_gemm(w, &i.u.gemm, s);
    case LDS_OPCODE_ALU:
      if (!is_sound(lds_decode_alu(w->widths, word, &i.u.alu), word)) return LDS_ERR_INSTRUCTION;
      return last ? LDS_ERR_FINISH : shape_alu(w, &i.u.alu, s);
    case LDS_OPCODE_DEPTHWISE:
      if (!is_sound(lds_decode_depthwise(w->widths, word, &i.u.depthwise), word)) return LDS_ERR_INSTRUCTION;
      return last ? LDS_ERR_FINISH : shape_depthwise(w, &i.u.depthwise, s);
    case LDS_OPCODE_CONFIG:
      if (!is_sound(lds_decode_config(w->widths, word, &i.u.config), word)) return LDS_ERR_INSTRUCTION;
      return last ? LDS_ERR_FINISH : shape_config(w, &i.u.config, s);
    case LDS_OPCODE_FINISH:
      if (!is_sound(LDS_ISA_OK, word)) return LDS_ERR_INSTRUCTION;
      s->stage = LDS_STAGE_COMPUTE;
      return last ? LDS_OK : LDS_ERR_FINISH;
    default:
      return LDS_ERR_INSTRUCTION;
  }
}

/* --- places ------------------------------------------------------------------------------------------------------------------ */
/* Records loaded micro-ops in the model of the scratchpad; they may come only from memory that the device does not write. */
static int load_uops(walk *w, uint32_t region, uint32_t dram_base, uint32_t sram_base, uint32_t count) {
  const uint8_t *from = w->constants[region];
  uint32_t k;
  if (w->region[region].kind != LDS_REGION_CONSTANTS || from == NULL) return LDS_ERR_UOP;
  from += (size_t)dram_base * LDS_UOP_BYTES;
  for (k = 0; k < count; ++k) w->uop[sram_base + k] = lds_u32(from + k * LDS_UOP_BYTES);
  if (sram_base <= w->filled) {
    w->filled = lds_max_u32(w->filled, sram_base + count);
    return LDS_OK;
  }
  if (w->gaps == 0) memset(w->loaded, 0, w->config.uop_depth);
  w->gaps = 1;
  memset(w->loaded + sram_base, 1, count);
  return LDS_OK;
}

static int check_tiles(walk *w, const shape *s, const uint64_t word[2]) {
  const uint32_t sram_base = bits_between(word[0], LDS_BIT_MEMORY_SRAM_BASE, LDS_BIT_MEMORY_DRAM_BASE);
  const uint32_t dram_base = bits_between(word[0], LDS_BIT_MEMORY_DRAM_BASE, LDS_BIT_MEMORY_REGION);
  if (s->moves == NO_OP) return (sram_base | dram_base) == 0 ? LDS_OK : LDS_ERR_INSTRUCTION;
  if (dram_base >= s->below[0]) return s->moves == TO_INP ? LDS_ERR_SRAM : LDS_ERR_DRAM;
  if (sram_base >= s->below[1]) return LDS_ERR_SRAM;
  if (s->moves != UOPS) return LDS_OK;
  return load_uops(w, bits_between(word[0], LDS_BIT_MEMORY_REGION, 64u), dram_base, sram_base,
                   bits_between(word[1], LDS_BIT_MEMORY_X_SIZE - 64u, LDS_BIT_MEMORY_X_STRIDE - 64u));
}

/* Fields are compared in place: the order of the masked words is the order of their values. */
static int is_below(const walk *w, const shape *s, uint32_t uop) {
  return (uop & w->field[0]) < s->below[0] && (uop & w->field[1]) < s->below[1] && (uop & w->field[2]) < s->below[2];
}

/* Checks what a shape accesses with micro-ops [begin, end), all of which must be loaded. If the OR of all micro-ops is below the limits,
 * so is each of them: in most cases this one test suffices. */
static int check_loops(const walk *w, const shape *s, uint64_t word) {
  const uint32_t begin = (uint32_t)(word >> LDS_BIT_GEMM_UOP_BGN) & w->uop_bgn_mask,
                 end = (uint32_t)(word >> w->uop_end_bit) & w->uop_end_mask;
  uint32_t bits = 0, k;
  if (begin >= end || end > w->config.uop_depth) return LDS_ERR_UOP;
  for (k = lds_max_u32(begin, w->filled); k < end; ++k) {
    if (w->gaps == 0 || w->loaded[k] == 0) return LDS_ERR_UOP;
  }
  for (k = begin; k < end; ++k) bits |= w->uop[k];
  if (is_below(w, s, bits)) return LDS_OK;
  for (k = begin; k < end && is_below(w, s, w->uop[k]); ++k) continue;
  return k == end ? LDS_OK : LDS_ERR_SRAM;
}

/* --- the walk ---------------------------------------------------------------------------------------------------------------- */
/* The hash of a shape's key: any slot is correct, and a good hash spreads the shapes of real programs. */
static uint32_t slot_of(uint64_t key0, uint64_t key1) { return (uint32_t)((key0 ^ key1) * 0x9E3779B97F4A7C15u >> (64 - LOG_SLOTS)); }

static int check(walk *w, const uint8_t *bytes, int last) {
  const uint64_t word[2] = {lds_get_u64(bytes), lds_get_u64(bytes + 8)};
  const uint32_t opcode = word[0] & (OPCODES - 1u);
  const uint64_t key = word[0] | w->place[opcode];
  uint8_t *slot = &w->slots[slot_of(key, word[1])];
  shape *s = &w->shapes[*slot];
  int status;
  if (last || s->key[0] != key || s->key[1] != word[1]) {
    s = &w->shapes[w->next];
    s->key[0] = 0;
    status = learn(w, bytes, last, s);
    if (status != LDS_OK) return status;
    s->key[0] = key;
    s->key[1] = word[1];
    *slot = (uint8_t)w->next;
    w->next = w->next + 1u < SHAPES ? w->next + 1u : 1u;
  }
  if (opcode == LDS_OPCODE_GEMM || opcode == LDS_OPCODE_ALU || opcode == LDS_OPCODE_DEPTHWISE) {
    status = check_loops(w, s, word[0]);
    if (status != LDS_OK) return status;
  } else if (opcode == LDS_OPCODE_LOAD || opcode == LDS_OPCODE_STORE) {
    status = check_tiles(w, s, word);
    if (status != LDS_OK) return status;
  }
  return tokens(w, s->stage, word[0]);
}

/* Whether a configuration is valid, by the limits of HwConfig, on which everything above relies. */
static int config_is_possible(const lds_hw_config *c) {
  const lds_isa_widths w = lds_isa_widths_of(c);
  if (c->log_batch > 6 || c->log_block < 1 || c->log_block > 7) return 0;
  if ((c->log_inp_width != 3 && c->log_inp_width != 4) || c->log_wgt_width != c->log_inp_width || c->log_acc_width != 5) return 0;
  if ((c->capabilities & LDS_CAP_REQUANTIZE) != 0 && (lds_is_float(c) || (c->capabilities & LDS_CAP_CONFIG) == 0)) return 0;
  if ((c->capabilities & LDS_CAP_STORE_REQUANTIZE) != 0 && (c->capabilities & LDS_CAP_REQUANTIZE) == 0) return 0;
  if ((c->capabilities & LDS_CAP_WEIGHTS4) != 0 && (lds_is_float(c) || c->log_block < 2 || lds_group_tiles(c) == 0)) return 0;
  if ((c->capabilities & LDS_CAP_WEIGHT_CODE) != 0 && (lds_is_float(c) || (uint32_t)1 << c->log_block < LDS_PLANE_WEIGHTS)) return 0;
  if ((c->capabilities & LDS_CAP_STORE_INP) != 0 && (lds_is_float(c) || (c->capabilities & LDS_CAP_REGIONS) == 0)) return 0;
  if ((c->capabilities & LDS_CAP_STORE_ACC) != 0 && lds_is_float(c)) return 0;
  if ((c->capabilities & LDS_CAP_DEPTHWISE) != 0 && (lds_is_float(c) || c->log_block < 2 || w.li < 2)) return 0;
  if (w.lu < 1 || w.lu > 13 || w.li < 1 || w.li > 15 || w.lw < 1 || w.lw > 15 || w.la < 1 || w.la > 11) return 0;
  if (w.la + w.li + w.lw > 32 || w.la + lds_max_u32(w.la, w.li) + w.lw > 32) return 0;
  return c->uop_depth >= 1 && c->uop_depth <= (uint32_t)1 << w.lu;
}

/* Tiles of each scratchpad, bits of a micro-op's fields, and bits of an instruction that are not its shape. */
static void measure(walk *w) {
  static const lds_uop most[3] = {{UINT32_MAX, 0, 0}, {0, UINT32_MAX, 0}, {0, 0, UINT32_MAX}};
  static const lds_uop least[3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  const uint64_t flags = lds_mask(LDS_BIT_PUSH_NEXT + 1u) & ~lds_mask(LDS_BIT_POP_PREV);
  const uint64_t bases = lds_mask(LDS_BIT_MEMORY_REGION) & ~lds_mask(LDS_BIT_MEMORY_SRAM_BASE);
  const uint64_t uops = lds_mask(LDS_BIT_GEMM_ITER_OUT(w->widths)) & ~lds_mask(LDS_BIT_GEMM_UOP_BGN);
  uint32_t k;
  for (k = 0; k < OPCODES; ++k) w->place[k] = flags;
  w->place[LDS_OPCODE_LOAD] = w->place[LDS_OPCODE_STORE] = flags | bases;
  w->place[LDS_OPCODE_GEMM] = w->place[LDS_OPCODE_ALU] = w->place[LDS_OPCODE_DEPTHWISE] = flags | uops;
  w->uop_end_bit = LDS_BIT_GEMM_UOP_END(w->widths);
  w->uop_bgn_mask = (uint32_t)lds_mask(w->uop_end_bit - LDS_BIT_GEMM_UOP_BGN);
  w->uop_end_mask = (uint32_t)lds_mask(LDS_BIT_GEMM_ITER_OUT(w->widths) - w->uop_end_bit);
  w->depth[LDS_MEMORY_UOP] = w->config.uop_depth;
  w->depth[LDS_MEMORY_WGT] = w->depth[LDS_MEMORY_WGT_4BIT] = w->depth[LDS_MEMORY_WGT_PLANES] = (uint32_t)1 << w->widths.lw;
  w->depth[LDS_MEMORY_INP] = (uint32_t)1 << w->widths.li;
  w->depth[LDS_MEMORY_ACC] = w->depth[LDS_MEMORY_OUT] = w->depth[LDS_MEMORY_ACC_8BIT] = (uint32_t)1 << w->widths.la;
  for (k = 0; k < MEMORIES; ++k) {
    w->log_tile_bytes[k] = (uint8_t)lds_log_tile_bytes(&w->config, k);
    w->row_bases[k] = w->fills[k] = 1;
  }
  w->row_bases[LDS_MEMORY_WGT_4BIT] = LDS_GROUP_BASES;
  w->fills[LDS_MEMORY_WGT_4BIT] = (uint8_t)lds_group_tiles(&w->config);
  for (k = 0; k < 3u; ++k) {
    (void)lds_uop_encode(w->widths, &most[k], &w->field[k]);
    (void)lds_uop_encode(w->widths, &least[k], &w->unit[k]);
  }
}

/* Slots are initialized to zeros. A shape is written before a slot refers to it, and a ring's entry before it is read; a micro-op whose
 * `loaded` byte is 0 is never used. */
static int begin(walk *w, const lds_model *model, uint32_t device, const uint8_t *const *constants, void *scratch) {
  uint32_t r;
  memset(w, 0, sizeof *w);
  w->config = lds_config_of(model, device);
  if (!config_is_possible(&w->config)) return LDS_ERR_CONFIG;
  w->constants = constants;
  w->widths = lds_isa_widths_of(&w->config);
  measure(w);
  w->shapes = scratch;
  w->next = 1;
  w->slots = (uint8_t *)(w->shapes + SHAPES);
  w->ring = (uint32_t(*)[RING])(void *)(w->slots + SLOTS);
  w->uop = (uint32_t *)(void *)(w->ring + QUEUES);
  w->loaded = (uint8_t *)(w->uop + w->config.uop_depth);
  w->shapes[0].key[0] = 0; /* the empty shape, which matches no instruction */
  memset(w->slots, 0, SLOTS);
  w->known[NO_QUEUE] = 0u - LDS_MAX_TOKENS;
  w->latest[LDS_STAGE_LOAD] = w->latest[LDS_STAGE_STORE] = UINT64_MAX; /* no instruction yet, so nothing to wait for */
  w->regions = model->section[LDS_REGION_TABLE].count;
  for (r = 0; r < w->regions; ++r) w->region[r] = lds_model_region(model, r);
  return LDS_OK;
}

int lds_validate(const lds_model *model, uint32_t device, const uint8_t *instructions, uint32_t count, const uint8_t *const *constants,
                 void *scratch, lds_fault *fault) {
  walk w;
  uint32_t k;
  int status = begin(&w, model, device, constants, scratch);
  for (k = 0; k < count && status == LDS_OK; ++k) status = check(&w, instructions + (size_t)k * LDS_INSN_BYTES, k + 1u == count);
  if (status == LDS_OK) status = check_finish(&w);
  fault->instruction = k > 0 ? k - 1u : 0;
  return status;
}
