/* A schedule in a thread of its own, releases and cancellations from others; made for the thread sanitizer.
 *
 * In:   how many releases of each task, an artifact with one input and one output.
 * Out:  counts as JSON, exit status 0; else a line that says what was wrong.
 * Next: test_schedule.py.
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
#include "lds_schedule.h"

#define MUST(condition, status)                                                                                      \
  do {                                                                                                               \
    if (!(condition)) {                                                                                              \
      (void)fprintf(stderr, "%s:%d: %s: %d: %s\n", __FILE__, __LINE__, #condition, status, lds_status_text(status)); \
      exit(1);                                                                                                       \
    }                                                                                                                \
  } while (0)

enum { TASKS = 3, POOL = 1 << 20, LARGEST = 1 << 20 };

static uint8_t file[LARGEST];
static lds_model model;
static lds_tensor x, y;
static uint8_t *input, *wanted;
static const lds_hal *hal;

typedef struct worker {
  pthread_t thread;
  lds_task task;
  uint32_t releases, ended, cancelled, wrong; /* of the loop's thread, but the first */
  uint32_t done;                              /* atomic: how many runs have ended */
} worker;

static worker workers[TASKS];

static uint64_t now(void) { return hal->now_ns(hal->ctx); }

/* --- the loop's thread --------------------------------------------------------------------------------------------------------- */
static int begin(void *ctx, lds_task *task) {
  (void)ctx;
  return lds_session_set_input(task->session, 0, input, x.size_bytes);
}

static void done(void *ctx, lds_task *task, int status) {
  worker *w = ctx;
  uint8_t *output = malloc(y.size_bytes);
  ++w->ended;
  if (status == LDS_ERR_CANCELLED) {
    ++w->cancelled;
  } else {
    MUST(status == LDS_OK, status);
    status = lds_session_get_output(task->session, 0, output, y.size_bytes);
    MUST(status == LDS_OK, status);
    w->wrong += memcmp(output, wanted, y.size_bytes) != 0;
  }
  free(output);
  (void)__atomic_add_fetch(&w->done, 1u, __ATOMIC_RELEASE);
}

/* --- the others ---------------------------------------------------------------------------------------------------------------- */
static void *work(void *argument) {
  worker *w = argument;
  uint32_t k;
  for (k = 0; k < w->releases; ++k) {
    while (lds_task_release(&w->task, now()) != LDS_OK) (void)sched_yield();
    if (k % 3u == 2u) lds_task_cancel(&w->task);
    while (__atomic_load_n(&w->done, __ATOMIC_ACQUIRE) <= k) (void)sched_yield();
  }
  return NULL;
}

/* --- the device ---------------------------------------------------------------------------------------------------------------- */
static lds_session *opened(lds_device *device) {
  lds_session_config config;
  lds_session *session;
  size_t size;
  int status;
  lds_session_config_default(&config);
  size = lds_session_size_bytes(&model, &config);
  status = lds_session_open(&session, &model, device, &config, malloc(size), size, NULL);
  MUST(status == LDS_OK, status);
  return session;
}

static void know_the_output(lds_session *session) {
  uint32_t k;
  int status;
  input = malloc(x.size_bytes);
  wanted = malloc(y.size_bytes);
  for (k = 0; k < x.size_bytes; ++k) input[k] = (uint8_t)(k * 37u);
  (void)lds_session_set_input(session, 0, input, x.size_bytes);
  status = lds_session_run(session);
  MUST(status == LDS_OK, status);
  (void)lds_session_get_output(session, 0, wanted, y.size_bytes);
}

static uint32_t runs_left(void) {
  uint32_t left = 0, k;
  for (k = 0; k < TASKS; ++k) left += workers[k].releases - workers[k].ended;
  return left;
}

int main(int argc, char **argv) {
  lds_hw_config hardware;
  lds_schedule schedule;
  lds_device device;
  lds_hal_sim *sim;
  FILE *from;
  uint32_t k, cancelled = 0, wrong = 0, idle = 0;
  size_t size;
  int status;
  if (argc != 3 || (from = fopen(argv[2], "rb")) == NULL) return 2;
  size = fread(file, 1, sizeof file, from);
  (void)fclose(from);
  status = lds_model_open(&model, file, size);
  MUST(status == LDS_OK, status);
  (void)lds_model_input(&model, 0, &x);
  (void)lds_model_output(&model, 0, &y);
  memcpy(&hardware, lds_model_fingerprint(&model, 0), sizeof hardware);
  sim = lds_hal_sim_create(&hardware, 64, LDS_SIMDEV_NATIVE, POOL, 0);
  MUST(sim != NULL, 0);
  hal = lds_hal_sim_hal(sim);
  status = lds_device_open(&device, hal, &lds_registers_native, 0);
  MUST(status == LDS_OK, status);
  lds_schedule_init(&schedule);
  for (k = 0; k < TASKS; ++k) {
    lds_task_config config;
    lds_session *session = opened(&device);
    if (k == 0) know_the_output(session);
    lds_task_config_default(&config);
    config.priority = k;
    config.begin = begin;
    config.done = done;
    config.ctx = &workers[k];
    config.isolated = lds_model_isolated;
    config.scratch_bytes = lds_isolated_scratch_bytes(&model);
    config.scratch = malloc(config.scratch_bytes);
    status = lds_schedule_add(&schedule, &workers[k].task, session, &config);
    MUST(status == LDS_OK, status);
    free(config.scratch);
    workers[k].releases = (uint32_t)atoi(argv[1]);
  }
  for (k = 0; k < TASKS; ++k) MUST(pthread_create(&workers[k].thread, NULL, work, &workers[k]) == 0, 0);
  while (runs_left() != 0) {
    if (lds_schedule_step(&schedule, now(), UINT64_MAX) == LDS_OK) {
      ++idle;
      (void)sched_yield();
    }
  }
  for (k = 0; k < TASKS; ++k) {
    (void)pthread_join(workers[k].thread, NULL);
    cancelled += workers[k].cancelled;
    wrong += workers[k].wrong;
    MUST(workers[k].task.runs == workers[k].releases, 0);
    lds_session_close(workers[k].task.session);
  }
  lds_hal_sim_destroy(sim);
  (void)printf("{\"runs\": %u, \"cancelled\": %u, \"wrong\": %u}\n", (unsigned)(TASKS * workers[0].releases), (unsigned)cancelled,
               (unsigned)wrong);
  return idle < UINT32_MAX ? 0 : 1;
}
