/* Releases networks at random and together, in cycles of the device, and compares what they give with what they give alone.
 *
 * In:   a board; the packed networks.
 * Out:  lines of text; time is what the device has counted, since an emulator keeps none: an idle device lets it pass.
 * Next: tests/board/sharing.py reads the lines, and has the bounds.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "share_cases.h"

#include <string.h>

#include "lds_schedule.h"

enum { MOST = 4, ALIGN = 64, OFTEN = 2000, HANG_NS = 2000 * 1000 * 1000 };

/* What the networks begin with, each; sizes in bytes, times in cycles. */
typedef struct header {
  uint32_t model, input, output, samples; /* behind it: the model, the inputs, the outputs, each at a multiple of ALIGN */
  uint32_t runs, period, trusted;         /* trusted: its programs are not looked at, and fail */
  uint32_t zero;
} header;

typedef struct network {
  header h;
  const uint8_t *inputs, *outputs;
  lds_model model;
  lds_session *session;
  lds_task task;
  uint32_t left, begun, ended, failures, wrong;
  uint64_t next; /* release */
} network;

typedef struct sharing {
  const board *b;
  lds_device device;
  lds_schedule schedule;
  network networks[MOST];
  uint32_t count, random;
  uint64_t idle; /* cycles that passed while the device did nothing */
} sharing;

static void print_number(const board *b, const char *name, uint64_t value) {
  char text[24], *p = text + sizeof text;
  *--p = 0;
  do *--p = (char)('0' + value % 10u);
  while ((value /= 10u) != 0);
  b->print(name);
  b->print(p);
}

static uint32_t drawn(sharing *s, uint32_t below) {
  s->random = s->random * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)s->random * below >> 32);
}

/* --- runs -------------------------------------------------------------------------------------------------------------------- */
static int begin(void *ctx, lds_task *task) {
  network *n = ctx;
  const uint32_t sample = n->begun++ % n->h.samples;
  if (n->h.input == 0) return LDS_OK;
  return lds_session_set_input(task->session, 0, n->inputs + (size_t)sample * n->h.input, n->h.input);
}

static void done(void *ctx, lds_task *task, int status) {
  network *n = ctx;
  const uint32_t sample = n->ended++ % n->h.samples;
  n->failures += status != LDS_OK;
  n->wrong += status == LDS_OK && memcmp(lds_session_output(task->session, 0), n->outputs + (size_t)sample * n->h.output, n->h.output) != 0;
}

/* --- opening ----------------------------------------------------------------------------------------------------------------- */
static size_t padded(size_t bytes) { return (bytes + ALIGN - 1u) / ALIGN * ALIGN; }

/* A piece of the board's memory, of which *at is free. */
static void *piece(const board *b, size_t *at, size_t bytes) {
  uint8_t *found = (uint8_t *)b->memory + *at;
  *at += padded(bytes);
  return *at <= b->memory_bytes ? found : NULL;
}

static int open_network(sharing *s, network *n, const uint8_t *bytes, size_t *at) {
  lds_session_config config;
  lds_task_config how;
  size_t size, scratch_at;
  void *memory;
  int status = lds_model_open(&n->model, bytes, n->h.model);
  if (status != LDS_OK) return status;
  lds_session_config_default(&config);
  lds_session_config_all(&config);
  config.hang_ns = HANG_NS;
  if (n->h.trusted) config.validate = NULL;
  size = lds_session_size_bytes(&n->model, &config);
  memory = piece(s->b, at, size);
  if (memory == NULL) return LDS_ERR_MEMORY;
  status = lds_session_open(&n->session, &n->model, &s->device, &config, memory, size, NULL);
  if (status != LDS_OK) return status;
  lds_task_config_default(&how);
  how.priority = MOST - (uint32_t)(n - s->networks);
  how.begin = begin;
  how.done = done;
  how.ctx = n;
  scratch_at = *at; /* needed no longer than the call */
  how.isolated = n->h.trusted ? NULL : lds_model_isolated;
  how.scratch_bytes = lds_isolated_scratch_bytes(&n->model);
  how.scratch = piece(s->b, &scratch_at, how.scratch_bytes);
  if (how.scratch == NULL) return LDS_ERR_MEMORY;
  n->left = n->h.runs;
  return lds_schedule_add(&s->schedule, &n->task, n->session, &how);
}

static int open_all(sharing *s) {
  const uint8_t *from = s->b->model, *end = from + s->b->model_bytes;
  size_t at = 0;
  while ((size_t)(end - from) >= sizeof(header) && s->count < MOST) {
    network *n = &s->networks[s->count];
    const uint8_t *model = from + padded(sizeof n->h);
    int status;
    memcpy(&n->h, from, sizeof n->h);
    n->inputs = model + padded(n->h.model);
    n->outputs = n->inputs + padded((size_t)n->h.samples * n->h.input);
    from = n->outputs + padded((size_t)n->h.samples * n->h.output);
    status = open_network(s, n, model, &at);
    if (status != LDS_OK) return status;
    ++s->count;
  }
  return from == end ? LDS_OK : LDS_ERR_FORMAT;
}

/* --- time -------------------------------------------------------------------------------------------------------------------- */
static uint64_t now(const sharing *s) { return s->idle + s->schedule.cycles; }

/* Releases what is due. A release comes a period after the one before at least: often then, often up to a period later. */
static uint32_t release(sharing *s) {
  uint32_t left = 0, k;
  for (k = 0; k < s->count; ++k) {
    network *n = &s->networks[k];
    if (n->left != 0 && n->next <= now(s) && lds_task_release(&n->task, n->next) == LDS_OK) {
      --n->left;
      n->next += n->h.period + (drawn(s, 2) ? drawn(s, n->h.period) : 0);
    }
    left += n->left + n->begun - n->ended;
    left += n->task.active | n->task.request; /* released, and not begun */
  }
  return left;
}

/* Nothing is released: time goes on to the next release. Once in two idle times one network and all above it are released together, a
 * cycle after those below it: their worst case. */
static void pass(sharing *s) {
  uint64_t first = UINT64_MAX, last = 0;
  uint32_t k;
  for (k = 0; k < s->count; ++k) {
    const network *n = &s->networks[k];
    if (n->left == 0) continue;
    if (n->next < first) first = n->next;
    if (n->next > last) last = n->next;
  }
  if (first == UINT64_MAX) return;
  if (drawn(s, 2) == 0) {
    const uint32_t one = drawn(s, s->count);
    for (k = 0; k < s->count; ++k) s->networks[k].next = last + (k <= one && one + 1u < s->count);
    first = last;
  }
  if (first > now(s)) s->idle += first - now(s);
}

static void report(const sharing *s, const char *name) {
  uint32_t k;
  for (k = 0; k < s->count; ++k) {
    const network *n = &s->networks[k];
    print_number(s->b, name, k);
    print_number(s->b, " runs ", n->ended);
    print_number(s->b, " failures ", n->failures);
    print_number(s->b, " wrong ", n->wrong);
    print_number(s->b, " worst ", n->task.worst_response);
    s->b->print("\n");
  }
}

int share_cases(const board *b) {
  static sharing s;
  uint32_t k, told = 0;
  int status;
  s.b = b;
  s.random = b->runs;
  lds_schedule_init(&s.schedule);
  status = lds_device_open(&s.device, b->hal, b->registers, 0);
  if (status == LDS_OK) status = open_all(&s);
  if (status != LDS_OK) {
    b->print(lds_status_text(status));
    b->print("\n");
    return status;
  }
  while (release(&s) != 0) {
    if (lds_schedule_step(&s.schedule, now(&s), UINT64_MAX) != LDS_OK) continue;
    pass(&s);
    if (s.networks[0].ended < told + OFTEN) continue;
    told = s.networks[0].ended;
    report(&s, "so far of network ");
  }
  report(&s, "network ");
  for (k = 0; k < s.count; ++k) lds_session_close(s.networks[k].session);
  print_number(b, "switches ", s.schedule.switches);
  b->print("\ndone\n");
  return 0;
}
