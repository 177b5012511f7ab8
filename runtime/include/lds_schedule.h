/* Several networks on one device: which goes first, and when the device turns to another one.
 *
 * In:   open sessions of one device, each with a priority; the time, from the caller.
 * Out:  their runs, step by step; how long each took from its release.
 * Next: docs/schedule.md has an example, and how `loadstone bound` computes the longest response before anything runs.
 *
 *     lds_schedule schedule;       lds_schedule_init(&schedule);
 *     lds_task_config config;      lds_task_config_default(&config);
 *     config.priority = 2;         config.period = 20000000;                      (in whatever unit `now` has: here nanoseconds)
 *     lds_task task;               lds_schedule_add(&schedule, &task, session, &config);
 *     for (;;) lds_schedule_step(&schedule, hal->now_ns(hal->ctx), UINT64_MAX);
 *
 * A run is a sequence of blocks: a step of the host, or a program of the device with those that run beside it. Between two blocks the
 * session of highest priority that has something to do goes on; inside one nobody interrupts. `loadstone compile --switch-within` makes
 * programs as short as asked. A run that fails ends with its own status; the device is reset where that is needed, and the others go on.
 *
 * All memory is the caller's; a schedule is a list of its tasks. No clock is read: `now` is what the caller says, in any unit. In a
 * firmware or an RTOS one loop or task calls lds_schedule_step, under Linux one thread; lds_task_release and lds_task_cancel may be
 * called from other threads and from interrupt handlers, for each task from one at a time (on processors with an atomic exchange: see
 * runtime/include/loadstone.h). The sessions are used by nobody else meanwhile. `begin` and `done` may add, remove, release and cancel.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_SCHEDULE_H
#define LDS_SCHEDULE_H

#include "loadstone.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Checks rule V17 of VALIDATION.md for all programs: none reads what another program has left in a scratchpad. LDS_ERR_RESIDUE and the
 * instruction in *fault (which may be NULL): one does, or it is not certain that none does; LDS_ERR_ACCELERATOR: a program of an
 * instruction table, of which nobody can say so. scratch: lds_isolated_scratch_bytes(model) bytes, aligned to 4. */
LDS_EXPORT size_t lds_isolated_scratch_bytes(const lds_model *model);
LDS_EXPORT int lds_model_isolated(const lds_model *model, void *scratch, size_t scratch_bytes, lds_fault *fault);

struct lds_task;

typedef struct lds_task_config {
  uint32_t priority;                              /* the largest goes first; of equal ones that which was added first */
  uint32_t entry;                                 /* the function of the model that runs */
  uint64_t period;                                /* from one release to the next; 0: lds_task_release alone releases it */
  uint64_t offset;                                /* of a periodic task: when the first release is */
  uint64_t deadline;                              /* from a release to the end of its run; 0: none */
  int (*begin)(void *ctx, struct lds_task *task); /* before a run, to set inputs: LDS_OK, or what the run ends with; NULL: nothing */
  void (*done)(void *ctx, struct lds_task *task, int status); /* after a run, to take outputs: LDS_OK or LDS_ERR_*; NULL: nothing */
  void *ctx;
  int (*isolated)(const lds_model *model, void *scratch, size_t scratch_bytes, lds_fault *fault); /* lds_model_isolated; NULL trusts */
  void *scratch;                                                                                  /* for `isolated` */
  size_t scratch_bytes;
} lds_task_config;

/* A session in a schedule. The caller reads the first part, and leaves the second alone. */
typedef struct lds_task {
  lds_session *session;
  uint64_t response, worst_response; /* from the release to the end: of the last run, and the longest */
  uint64_t runs, failures;           /* that ended; of these with a status other than LDS_OK */
  uint64_t missed;                   /* deadlines, and releases that were left out because the run before had not ended */

  lds_task_config config;
  struct lds_task *next;
  uint64_t released_at, next_release, asked_at;
  uint32_t first, end;      /* the steps of the entry */
  uint32_t step;            /* where the next block of the run begins */
  uint32_t active;          /* 1: released, and not ended */
  uint32_t serves;          /* the request whose run it is */
  uint32_t asked;           /* how often somebody asked: known to who does */
  uint32_t request, cancel; /* posted by others: the number of a request */
  uint32_t over;            /* 1: no period releases it, or none any more */
} lds_task;

typedef struct lds_schedule {
  uint64_t cycles;     /* of all blocks that have ended, as the devices' counters say: of programs side by side the most */
  lds_task *tasks;     /* by descending priority */
  lds_task *in_flight; /* whose block the device executes, or has executed */
  uint64_t switches;   /* blocks that began for another task than the one before */
  lds_task *last;
  int block_status; /* of the block that has ended */
  uint32_t block_ended;
  uint32_t stepping; /* 1: inside lds_schedule_step */
} lds_schedule;

LDS_EXPORT void lds_schedule_init(lds_schedule *schedule);
/* Priority 0, entry 0, released by lds_task_release, trusted. */
LDS_EXPORT void lds_task_config_default(lds_task_config *config);
/* Adds a session, which is open and does not run. LDS_ERR_ARGUMENT for an entry that its model lacks, and where the task or the session is
 * in the schedule already; what config->isolated refuses. */
LDS_EXPORT int lds_schedule_add(lds_schedule *schedule, lds_task *task, lds_session *session, const lds_task_config *config);
/* Removes a task: its run is stopped, and nobody is told. */
LDS_EXPORT int lds_schedule_remove(lds_schedule *schedule, lds_task *task);
/* Asks for a run, released at this time. LDS_ERR_STATE: the one that was asked for before has not begun. */
LDS_EXPORT int lds_task_release(lds_task *task, uint64_t now);
/* Ends the run that was asked for last with LDS_ERR_CANCELLED when its block has ended, or before it begins; of a task with a period the
 * one that goes on, else the next. */
LDS_EXPORT void lds_task_cancel(lds_task *task);
/* Ends a block, begins the next one, or waits for the one that works, for timeout_ns at most: one of these, after which the time may be
 * another. LDS_BUSY: call again now. LDS_OK: there is nothing to do until lds_schedule_next, or a release. LDS_ERR_STATE: `begin` or `done`
 * called it. */
LDS_EXPORT int lds_schedule_step(lds_schedule *schedule, uint64_t now, uint64_t timeout_ns);
/* When the next periodic release is; UINT64_MAX: none. */
LDS_EXPORT uint64_t lds_schedule_next(const lds_schedule *schedule);

#ifdef __cplusplus
}
#endif

#endif /* LDS_SCHEDULE_H */
