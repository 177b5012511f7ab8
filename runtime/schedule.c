/* What lds_schedule.h says: fixed priorities, and nobody is interrupted inside a block.
 *
 * In:   sessions, whose steps run one block after the other; the time.
 * Out:  runs, in the order of priorities; responses.
 * Next: run.c runs a block; python/loadstone/analysis/response.py computes how long a response can take.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "claim.h"
#include "lds_schedule.h"
#include "program.h"
#include "session.h"

/* The number of no request: of runs that a period released, and of a cancellation that means whichever run goes on. */
#define ANY_RUN UINT32_MAX

void lds_schedule_init(lds_schedule *schedule) { memset(schedule, 0, sizeof *schedule); }

void lds_task_config_default(lds_task_config *config) { memset(config, 0, sizeof *config); }

/* Twice in one list it would have no end, and two runs of one session would change each other's tensors. */
static int is_there(const lds_schedule *schedule, const lds_task *task, const lds_session *session) {
  const lds_task *t;
  for (t = schedule->tasks; t != NULL && t != task && t->session != session;) t = t->next;
  return t != NULL;
}

int lds_schedule_add(lds_schedule *schedule, lds_task *task, lds_session *session, const lds_task_config *config) {
  lds_task **place;
  lds_entry entry;
  int status;
  if (schedule == NULL || task == NULL || session == NULL || config == NULL) return LDS_ERR_ARGUMENT;
  if (is_there(schedule, task, session)) return LDS_ERR_ARGUMENT;
  if (session->phase != LDS_IDLE) return LDS_ERR_STATE;
  status = lds_model_entry(session->model, config->entry, &entry);
  if (status == LDS_OK && config->isolated != NULL) {
    status = config->isolated(session->model, config->scratch, config->scratch_bytes, NULL);
  }
  if (status != LDS_OK) return status;
  memset(task, 0, sizeof *task);
  task->session = session;
  task->config = *config;
  task->first = entry.first_step;
  task->end = entry.first_step + entry.steps;
  task->next_release = config->offset;
  task->over = config->period == 0;
  for (place = &schedule->tasks; *place != NULL && (*place)->config.priority >= config->priority;) place = &(*place)->next;
  task->next = *place;
  *place = task;
  return LDS_OK;
}

int lds_schedule_remove(lds_schedule *schedule, lds_task *task) {
  lds_task **place;
  if (schedule == NULL || task == NULL) return LDS_ERR_ARGUMENT;
  for (place = &schedule->tasks; *place != NULL && *place != task;) place = &(*place)->next;
  if (*place == NULL) return LDS_ERR_ARGUMENT;
  *place = task->next;
  if (schedule->last == task) schedule->last = NULL;
  if (schedule->in_flight != task) return LDS_OK;
  schedule->in_flight = NULL;
  return lds_session_stop(task->session);
}

int lds_task_release(lds_task *task, uint64_t now) {
  if (task == NULL) return LDS_ERR_ARGUMENT;
  if (lds_posted(&task->request) != 0) return LDS_ERR_STATE;
  task->asked_at = now;
  task->asked += task->asked >= ANY_RUN - 1u ? 3u : 1u;                     /* never 0, nor ANY_RUN */
  if (lds_posted(&task->cancel) == task->asked) lds_post(&task->cancel, 0); /* of 2^32 requests ago */
  lds_post(&task->request, task->asked);
  return LDS_OK;
}

/* Names the run that was asked for last: of a run that comes later it means nothing. */
void lds_task_cancel(lds_task *task) { lds_post(&task->cancel, task->config.period != 0 ? ANY_RUN : task->asked); }

/* --- runs -------------------------------------------------------------------------------------------------------------------- */
static void begin_run(lds_task *task, uint64_t released_at, uint32_t request) {
  task->step = task->first;
  task->released_at = released_at;
  task->active = 1;
  task->serves = request;
}

/* Requests are taken when the run before has ended; periods pass in any case. */
static void take_releases(lds_task *task, uint64_t now) {
  const uint64_t period = task->config.period;
  if (task->over == 0 && task->next_release <= now) {
    const uint64_t late = (now - task->next_release) / period; /* releases behind the first: counted, since they may be 2^64 */
    task->missed += late + (task->active != 0);
    if (task->active == 0) begin_run(task, task->next_release, ANY_RUN);
    if (late >= (UINT64_MAX - task->next_release) / period) {
      task->over = 1;
    } else {
      task->next_release += (late + 1u) * period;
    }
  }
  if (task->active == 0 && lds_posted(&task->request) != 0) {
    const uint64_t asked_at = task->asked_at; /* another release may come as soon as this one is fetched */
    begin_run(task, asked_at, lds_fetch(&task->request));
  }
}

/* Whether the run that goes on has been cancelled. What names another one stays: that has not begun, or has ended. */
static int is_cancelled(lds_task *task) {
  const uint32_t named = lds_posted(&task->cancel);
  if (named == ANY_RUN) lds_post(&task->cancel, 0);
  return named == task->serves || named == ANY_RUN;
}

static void end_run(lds_task *task, int status, uint64_t now) {
  task->active = 0;
  task->response = now > task->released_at ? now - task->released_at : 0; /* who released it may have had a later time */
  if (task->response > task->worst_response) task->worst_response = task->response;
  ++task->runs;
  task->failures += status != LDS_OK;
  task->missed += task->config.deadline != 0 && task->response > task->config.deadline;
  if (task->config.done != NULL) task->config.done(task->config.ctx, task, status);
}

/* Whether a step is a program that may run while the one before it does. */
static int is_beside(const lds_model *model, uint32_t step) {
  lds_program p;
  if (lds_model_step(model, step).kind != LDS_STEP_PROGRAM) return 0;
  lds_program_at(model, step, &p);
  return p.beside != 0;
}

/* An entry without steps is a block of none. */
static int begin_block(const lds_schedule *schedule, lds_task *task) {
  const uint32_t first = task->step;
  if (first == task->first && task->config.begin != NULL) {
    const int status = task->config.begin(task->config.ctx, task);
    if (status != LDS_OK || schedule->in_flight != task) return status; /* `begin` may have removed it */
  }
  if (task->step < task->end) ++task->step;
  while (task->step < task->end && is_beside(task->session->model, task->step)) ++task->step;
  return lds_session_start_steps(task->session, first, task->step, first != task->first);
}

/* --- the schedule ------------------------------------------------------------------------------------------------------------ */
/* What the block that has ended means for its run. */
static void end_block(lds_schedule *schedule, uint64_t now) {
  lds_task *task = schedule->in_flight;
  schedule->in_flight = NULL;
  schedule->block_ended = 0;
  if (schedule->block_status != LDS_OK || task->step == task->end) end_run(task, schedule->block_status, now);
}

static void wait_for_block(lds_schedule *schedule, uint64_t timeout_ns) {
  const int status = lds_session_wait(schedule->in_flight->session, timeout_ns);
  if (status == LDS_BUSY) return;
  schedule->block_status = status;
  schedule->block_ended = 1;
  schedule->cycles += schedule->in_flight->session->spent + schedule->in_flight->session->longest;
}

/* The first that has something to do, once those that were cancelled have ended. */
static lds_task *choose(const lds_schedule *schedule, uint64_t now) {
  lds_task *task = schedule->tasks;
  while (task != NULL) {
    take_releases(task, now);
    if (task->active == 0) {
      task = task->next;
    } else if (is_cancelled(task)) {
      end_run(task, LDS_ERR_CANCELLED, now);
      task = schedule->tasks; /* `done` may have removed any */
    } else {
      break;
    }
  }
  return task;
}

static int step(lds_schedule *schedule, uint64_t now, uint64_t timeout_ns) {
  lds_task *task;
  if (schedule->in_flight != NULL && schedule->block_ended == 0) {
    wait_for_block(schedule, timeout_ns);
    return LDS_BUSY;
  }
  if (schedule->in_flight != NULL) end_block(schedule, now);
  task = choose(schedule, now);
  if (task == NULL) return LDS_OK;
  schedule->switches += task != schedule->last;
  schedule->last = schedule->in_flight = task;
  schedule->block_status = begin_block(schedule, task);
  schedule->block_ended = schedule->block_status != LDS_OK;
  return LDS_BUSY;
}

int lds_schedule_step(lds_schedule *schedule, uint64_t now, uint64_t timeout_ns) {
  int status;
  if (schedule == NULL) return LDS_ERR_ARGUMENT;
  if (schedule->stepping != 0) return LDS_ERR_STATE;
  schedule->stepping = 1;
  status = step(schedule, now, timeout_ns);
  schedule->stepping = 0;
  return status;
}

uint64_t lds_schedule_next(const lds_schedule *schedule) {
  const lds_task *task;
  uint64_t next = UINT64_MAX;
  for (task = schedule->tasks; task != NULL; task = task->next) {
    if (task->over == 0 && task->next_release < next) next = task->next_release;
  }
  return next;
}
