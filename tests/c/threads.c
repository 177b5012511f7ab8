/* Threads, faults and ends at any moment: 8 threads on devices of their own, or all on one; made for the thread sanitizer.
 *
 * In:   "own" or "shared", how many faults (own) or runs (shared) altogether, a seed, an artifact with one input and one output.
 * Out:  counts as JSON, exit status 0; else a line that says what was wrong.
 * Next: test_threads.py.
 *
 * own: each thread has a simulated device with two sessions. It orders a fault, starts one session, finds the other one refused, and
 * waits, closes the session in flight, or destroys the device in flight. What is still there must then compute the right output.
 * shared: each thread has a session of one device; one at a time gets it, and faults come to whoever has it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lds_hal_sim.h"
#include "lds_isa.h"
#include "loadstone.h"

#define MUST(condition, status)                                                                                      \
  do {                                                                                                               \
    if (!(condition)) {                                                                                              \
      (void)fprintf(stderr, "%s:%d: %s: %d: %s\n", __FILE__, __LINE__, #condition, status, lds_status_text(status)); \
      exit(1);                                                                                                       \
    }                                                                                                                \
  } while (0)

enum { THREADS = 8, POOL = 1 << 20, SAMPLES = 4, LARGEST = 1 << 20, KINDS = LDS_FAULT_BIT_FLIP + 1 };

static const uint64_t hang_ns = 100u * 1000u * 1000u, patient_ns = 60ull * 1000u * 1000u * 1000u;

static uint8_t file[LARGEST];
static lds_model model;
static lds_hw_config hardware;
static lds_tensor x, y;
static uint8_t *input[SAMPLES], *wanted[SAMPLES];

typedef struct counts {
  uint32_t faults[KINDS], runs, refused, hung, closed, destroyed;
} counts;

typedef struct worker {
  pthread_t thread;
  uint32_t random, number;
  counts n;
  uint8_t *output;
} worker;

static uint32_t below(uint32_t *random, uint32_t n) {
  *random = *random * 1664525u + 1013904223u;
  return (*random >> 8) % n;
}

/* --- a device and its sessions ------------------------------------------------------------------------------------------------- */
typedef struct place {
  lds_hal_sim *sim;
  lds_device device;
  lds_session *session[2];
  void *memory[2];
} place;

static void open_session(place *p, unsigned k, uint64_t hang) {
  lds_session_config config;
  size_t size;
  int status;
  lds_session_config_default(&config);
  config.hang_ns = hang;
  size = lds_session_size_bytes(&model, &config);
  p->memory[k] = malloc(size);
  status = lds_session_open(&p->session[k], &model, &p->device, &config, p->memory[k], size, NULL);
  MUST(status == LDS_OK, status);
}

static void close_session(place *p, unsigned k) {
  lds_session_close(p->session[k]);
  free(p->memory[k]);
  p->memory[k] = NULL;
}

static void open_place(place *p) {
  p->sim = lds_hal_sim_create(&hardware, 64, LDS_SIMDEV_NATIVE, POOL, 0);
  MUST(p->sim != NULL, LDS_ERR_MEMORY);
  MUST(lds_device_open(&p->device, lds_hal_sim_hal(p->sim), &lds_registers_native, 0) == LDS_OK, 0);
  open_session(p, 0, hang_ns);
  open_session(p, 1, patient_ns);
}

/* The sessions are not closed: whatever the device does, it ends with everything. */
static void destroy_place(place *p) {
  lds_hal_sim_destroy(p->sim);
  free(p->memory[0]);
  free(p->memory[1]);
}

static void check_output(worker *w, lds_session *session, uint32_t sample) {
  MUST(lds_session_get_output(session, 0, w->output, y.size_bytes) == LDS_OK, 0);
  MUST(memcmp(w->output, wanted[sample], y.size_bytes) == 0, (int)sample);
}

static void set_input(lds_session *session, uint32_t sample) {
  const int status = lds_session_set_input(session, 0, input[sample], x.size_bytes);
  MUST(status == LDS_OK, status);
}

static void check_healthy(worker *w, lds_session *session) {
  const uint32_t sample = below(&w->random, SAMPLES);
  int status;
  set_input(session, sample);
  status = lds_session_run(session);
  MUST(status == LDS_OK, status);
  check_output(w, session, sample);
  ++w->n.runs;
}

/* --- own ----------------------------------------------------------------------------------------------------------------------- */
/* What a run with a fault may end as. A machine under load may stand still for so long that a device seems to. */
static int may_be(uint32_t fault, int status) {
  switch (fault) {
    case LDS_FAULT_DEAD:
      return status == LDS_ERR_DEAD;
    case LDS_FAULT_HANG:
    case LDS_FAULT_HANG_RESET:
    case LDS_FAULT_HANG_HW_RESET:
      return status == LDS_ERR_HUNG;
    case LDS_FAULT_BUS_ERROR:
      return status == LDS_ERR_DEVICE || status == LDS_ERR_HUNG;
    case LDS_FAULT_BIT_FLIP:
      return status == LDS_OK || status == LDS_ERR_DEVICE || status == LDS_ERR_HUNG;
    default:
      return status == LDS_OK || status == LDS_ERR_HUNG;
  }
}

static int wait_in_pieces(worker *w, lds_session *session) {
  int status = LDS_BUSY;
  while (status == LDS_BUSY) status = lds_session_wait(session, below(&w->random, 2) * 1000000u);
  return status;
}

/* One fault, and how it ends. Returns whether the device is still there. */
static int one_fault(worker *w, place *p) {
  const uint32_t fault = below(&w->random, KINDS), sample = below(&w->random, SAMPLES), end = below(&w->random, 16);
  const uint64_t bit = 8u * (uint64_t)(0x10000000u + below(&w->random, 8192)) + below(&w->random, 8);
  int status;
  ++w->n.faults[fault];
  lds_simdev_fault(lds_hal_sim_device(p->sim), (int)fault, 0, fault == LDS_FAULT_BIT_FLIP ? bit : below(&w->random, 3));
  set_input(p->session[0], sample);
  status = lds_session_start(p->session[0]);
  MUST(status == LDS_OK, status);
  if (end == 0) {
    ++w->n.destroyed;
    destroy_place(p);
    return 0;
  }
  status = lds_session_start(p->session[1]);
  MUST(status == LDS_ERR_STATE, status);
  ++w->n.refused;
  if (end < 3) {
    ++w->n.closed;
    close_session(p, 0);
    if (p->device.dead == 0) open_session(p, 0, hang_ns);
  } else {
    status = wait_in_pieces(w, p->session[0]);
    MUST(may_be(fault, status), status);
    if (status == LDS_OK && fault != LDS_FAULT_BIT_FLIP) check_output(w, p->session[0], sample);
    if (status == LDS_ERR_HUNG) ++w->n.hung;
  }
  if (p->device.dead == 0 && fault != LDS_FAULT_BIT_FLIP) return 1;
  if (p->device.dead != 0) { /* so it stays, and is said to be again */
    status = lds_session_run(p->session[1]);
    MUST(status == LDS_ERR_DEAD, status);
    destroy_place(p);
  } else { /* constants or instructions may be spoiled */
    close_session(p, 0);
    close_session(p, 1);
    lds_hal_sim_destroy(p->sim);
  }
  return 0;
}

static uint32_t faults_each;

static void *own(void *argument) {
  worker *w = argument;
  place p;
  uint32_t k;
  open_place(&p);
  for (k = 0; k < faults_each; ++k) {
    if (!one_fault(w, &p)) open_place(&p);
    check_healthy(w, p.session[1]);
  }
  close_session(&p, 0);
  close_session(&p, 1);
  lds_hal_sim_destroy(p.sim);
  return NULL;
}

/* --- shared -------------------------------------------------------------------------------------------------------------------- */
static place common;
static lds_session *of_thread[THREADS];
static void *memory_of_thread[THREADS];
static uint32_t runs_each;

static void *shared(void *argument) {
  worker *w = argument;
  lds_session *session = of_thread[w->number];
  while (w->n.runs < runs_each) {
    const uint32_t sample = below(&w->random, SAMPLES);
    int status;
    set_input(session, sample);
    status = lds_session_start(session);
    if (status == LDS_ERR_STATE) {
      ++w->n.refused;
      sched_yield();
      continue;
    }
    MUST(status == LDS_OK, status);
    status = wait_in_pieces(w, session);
    MUST(status == LDS_OK || status == LDS_ERR_HUNG, status);
    if (status == LDS_ERR_HUNG) {
      ++w->n.hung;
      continue;
    }
    check_output(w, session, sample);
    ++w->n.runs;
    if (below(&w->random, 40) == 0) {
      const uint32_t fault = 1u + below(&w->random, LDS_FAULT_HANG_HW_RESET);
      ++w->n.faults[fault];
      lds_simdev_fault(lds_hal_sim_device(common.sim), (int)fault, 0, below(&w->random, 3));
    }
    sched_yield();
  }
  return NULL;
}

static void open_shared(void) {
  unsigned k;
  open_place(&common);
  for (k = 0; k < THREADS; ++k) {
    lds_session_config config;
    size_t size;
    lds_session_config_default(&config);
    config.hang_ns = hang_ns;
    size = lds_session_size_bytes(&model, &config);
    memory_of_thread[k] = malloc(size);
    MUST(lds_session_open(&of_thread[k], &model, &common.device, &config, memory_of_thread[k], size, NULL) == LDS_OK, 0);
  }
}

static void close_shared(void) {
  unsigned k;
  for (k = 0; k < THREADS; ++k) {
    lds_session_close(of_thread[k]);
    free(memory_of_thread[k]);
  }
  close_session(&common, 0);
  close_session(&common, 1);
  lds_hal_sim_destroy(common.sim);
}

/* --- all ----------------------------------------------------------------------------------------------------------------------- */
static void read_model(const char *path) {
  FILE *f = fopen(path, "rb");
  size_t size;
  int status;
  MUST(f != NULL, LDS_ERR_ARGUMENT);
  size = fread(file, 1, sizeof file, f);
  (void)fclose(f);
  status = lds_model_open(&model, file, size);
  MUST(status == LDS_OK, status);
  memcpy(&hardware, lds_model_fingerprint(&model, 0), sizeof hardware);
  (void)lds_model_input(&model, 0, &x);
  (void)lds_model_output(&model, 0, &y);
}

/* One thread, a healthy device: what every other run must give. */
static void compute_wanted(uint32_t seed) {
  place p;
  uint32_t k, byte, random = seed;
  open_place(&p);
  for (k = 0; k < SAMPLES; ++k) {
    input[k] = malloc(x.size_bytes);
    wanted[k] = malloc(y.size_bytes);
    for (byte = 0; byte < x.size_bytes; ++byte) input[k][byte] = (uint8_t)below(&random, 256);
    set_input(p.session[1], k);
    MUST(lds_session_run(p.session[1]) == LDS_OK, 0);
    MUST(lds_session_get_output(p.session[1], 0, wanted[k], y.size_bytes) == LDS_OK, 0);
  }
  MUST(memcmp(wanted[0], wanted[1], y.size_bytes) != 0, 0);
  close_session(&p, 0);
  close_session(&p, 1);
  lds_hal_sim_destroy(p.sim);
}

int main(int argc, char **argv) {
  static worker workers[THREADS];
  counts all = {0};
  uint32_t k, kind, faults = 0;
  int alone;
  MUST(argc == 5, LDS_ERR_ARGUMENT);
  alone = strcmp(argv[1], "own") == 0;
  faults_each = runs_each = (uint32_t)atol(argv[2]) / THREADS;
  read_model(argv[4]);
  compute_wanted((uint32_t)atol(argv[3]));
  if (!alone) open_shared();
  for (k = 0; k < THREADS; ++k) {
    workers[k].random = (uint32_t)atol(argv[3]) * 2654435761u + k;
    workers[k].number = k;
    workers[k].output = malloc(y.size_bytes);
    MUST(pthread_create(&workers[k].thread, NULL, alone ? own : shared, &workers[k]) == 0, 0);
  }
  for (k = 0; k < THREADS; ++k) {
    const counts *n = &workers[k].n;
    (void)pthread_join(workers[k].thread, NULL);
    free(workers[k].output);
    for (kind = 0; kind < KINDS; ++kind) all.faults[kind] += n->faults[kind];
    all.runs += n->runs;
    all.refused += n->refused;
    all.hung += n->hung;
    all.closed += n->closed;
    all.destroyed += n->destroyed;
  }
  if (!alone) close_shared();
  for (k = 0; k < SAMPLES; ++k) {
    free(input[k]);
    free(wanted[k]);
  }
  (void)printf("{\"faults\": [");
  for (kind = 1; kind < KINDS; ++kind) {
    faults += all.faults[kind];
    (void)printf("%s%u", kind > 1 ? ", " : "", all.faults[kind]);
  }
  (void)printf("], \"all_faults\": %u, \"runs\": %u, \"refused\": %u, \"hung\": %u, \"closed\": %u, \"destroyed\": %u}\n", faults, all.runs,
               all.refused, all.hung, all.closed, all.destroyed);
  return 0;
}
