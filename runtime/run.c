/* Execute a session's steps: host operators here, programs on the device.
 *
 * In:   an open session whose inputs are set.
 * Out:  outputs and counters, or a status with the place of the error.
 * Next: a register block of driver/ starts the device; recover.c stops one that hangs.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "claim.h"
#include "lds_isa.h"
#include "program.h"
#include "recover.h"
#include "session.h"

static uint64_t now(const lds_session *s) { return s->device->hal->now_ns(s->device->hal->ctx); }

/* --- all devices of a session ------------------------------------------------------------------------------------------------ */
/* Acquires all of them for this session, or none; returns whether it did. */
static int claim(const lds_session *s) {
  lds_device *device;
  uint32_t k;
  for (k = 0; (device = lds_session_device(s, k)) != NULL; ++k) {
    if (!lds_claim(&device->claimed)) {
      lds_session_release(s, k);
      return 0;
    }
  }
  return 1;
}

/* Records the instruction at which the running device is, or at which it stopped, in the fault. */
static void fault_at(lds_session *s, uint32_t instruction) { lds_fault_at(s->model, s->step, instruction, &s->last.fault); }

/* --- one program ------------------------------------------------------------------------------------------------------------- */
/* Makes this device the one that the session waits for. */
static void watch(lds_session *s, lds_device *device) {
  s->running = device;
  s->progress = 0;
  s->progress_ns = s->started_ns = now(s);
  s->limit_ns = s->config.hang_ns != 0 ? s->config.hang_ns : LDS_LEAST_LIMIT_NS;
  s->extended = s->config.hang_ns != 0;
}

/* Whether the time limit has passed. This program's own limit is computed only after the smallest possible limit has passed. */
static int is_over(lds_session *s, uint64_t time) {
  lds_program p;
  const lds_accelerator *a;
  if (time - s->progress_ns < s->limit_ns) return 0;
  if (s->extended) return 1;
  s->extended = 1;
  lds_program_at(s->model, s->step, &p);
  a = lds_session_accelerator(s, p.device);
  s->limit_ns += lds_accelerator_kind(s, a)->most_ns(s, &p, (const uint8_t *)s->code.cpu + p.offset_bytes);
  return time - s->progress_ns >= s->limit_ns;
}

void lds_submit(lds_session *s, uint32_t step) {
  lds_device *device = lds_program_device(s, step);
  lds_program p;
  lds_job job;
  uint32_t r;
  memset(&job, 0, sizeof job);
  lds_program_at(s->model, step, &p);
  job.insn_bus = s->code.bus + p.offset_bytes;
  job.insn_count = p.instructions;
  job.insn_cpu = (const uint8_t *)s->code.cpu + p.offset_bytes;
  job.insn_bytes = p.size_bytes;
  for (r = 0; r < s->model->section[LDS_REGION_TABLE].count; ++r) {
    if (s->region[r].flags == 0) continue;
    job.region_bus[r] = s->region[r].bus;
    job.region_size_bytes[r] = s->region[r].size_bytes;
    if ((s->region[r].flags & LDS_DMA_DEVICE_WRITES) != 0) job.writable |= 1u << r;
  }
  watch(s, device);
  device->seen = 0;
  device->registers->start(device->hal, &job);
}

static int acknowledge(const lds_device *device) {
  const lds_hal *hal = device->hal;
  device->registers->irq_clear(hal);
  return hal->irq_ack == NULL || hal->irq_ack(hal->ctx) == LDS_HAL_OK ? LDS_OK : LDS_ERR_HAL;
}

/* One loop, since lds_counters has nothing but numbers of one type: a statement for each takes 80 bytes more of text on a Cortex-M. */
static void add_counters(lds_session *s, uint64_t time) {
  const lds_hal *hal = s->running->hal;
  uint64_t *sums = (uint64_t *)(void *)&s->last.counters;
  lds_counters c;
  const uint64_t *more = (const uint64_t *)(const void *)&c;
  uint32_t k;
  memset(&c, 0, sizeof c);
  s->running->registers->counters(hal, &c);
  if (c.write_bytes == 0 && hal->counters != NULL) hal->counters(hal->counters_ctx, &c); /* VTA's register pages count nothing but cycles */
  c.device_ns = time - s->started_ns;
  if (c.cycles > s->longest) s->longest = c.cycles;
  for (k = 0; k < sizeof c / sizeof *more; ++k) sums[k] += more[k];
}

/* An empty bus reads as ones or zeros: the device was present, and has disappeared. */
static int gone(lds_session *s) {
  fault_at(s, s->progress);
  return LDS_ERR_ABSENT;
}

static int is_gone(const lds_device *device) {
  return device->registers->identify(device->hal, device->config_hash) == LDS_HAL_UNSUPPORTED;
}

/* Handles an error, or a state that cannot occur in a run: of a device that is present, or that has disappeared. */
static int device_error(lds_session *s, const lds_device_state *state) {
  if (is_gone(s->running)) return gone(s);
  fault_at(s, state->error_pc);
  s->last.fault.error = state->error;
  s->last.fault.error_addr = state->error_addr;
  (void)acknowledge(s->running);
  (void)s->running->registers->stop(s->running->hal, LDS_STOP_SOFT_RESET);
  return LDS_ERR_DEVICE;
}

static int hung(lds_session *s, const lds_device_state *state) {
  if (is_gone(s->running)) return gone(s); /* an empty bus had read like a running device */
  fault_at(s, state->insn_pc);
  return lds_device_recover(s->running);
}

/* LDS_OK: the program is done. LDS_BUSY: it is not; the device was polled once, with a sleep until `until_ns` at most. */
static int poll(lds_session *s, uint64_t until_ns) {
  const lds_hal *hal = s->running->hal;
  const uint64_t time = now(s);
  uint64_t slice;
  lds_device_state state;
  switch (lds_device_look(s->running, &state)) {
    case LDS_STATE_DONE:
      add_counters(s, time);
      return acknowledge(s->running);
    case LDS_STATE_RUNNING:
      break;
    case LDS_ABSENT:
      return gone(s);
    default:
      return device_error(s, &state);
  }
  if (state.insn_pc != s->progress) {
    s->progress = state.insn_pc;
    s->progress_ns = time;
  }
  if (is_over(s, time)) return hung(s, &state);
  if (time >= until_ns) return LDS_BUSY;
  if (hal->irq_wait == NULL || (s->running->registers->flags & LDS_BLOCK_NO_IRQ) != 0) {
    lds_device_pause(hal, time - s->started_ns, until_ns - time);
    return LDS_BUSY;
  }
  slice = s->limit_ns / LDS_SLICES; /* an interrupt may be lost: poll again soon */
  if (slice > until_ns - time) slice = until_ns - time;
  return hal->irq_wait(hal->ctx, slice) < LDS_HAL_TIMEOUT ? LDS_ERR_HAL : LDS_BUSY;
}

/* --- all steps --------------------------------------------------------------------------------------------------------------- */
static int run_host_step(lds_session *s, const lds_step *step) {
  lds_operand operand;
  uint32_t k, operands = step->inputs + step->outputs;
  int status = LDS_OK;
  /* Such a step may write only part of its output, so the output is synchronized as well. */
  const int in_part = step->kind == LDS_STEP_COPY || step->kind == LDS_STEP_KEEP_ROWS || step->kind == LDS_STEP_EXTERNAL;
  const uint32_t fetched = in_part ? operands : step->inputs;
  for (k = 0; k < fetched && status == LDS_OK; ++k) {
    (void)lds_session_operand(s, s->step, k, &operand);
    status = lds_session_sync(s, &operand.tensor, LDS_DMA_FROM_DEVICE);
  }
  if (status != LDS_OK) return status;
  if (step->kind == LDS_STEP_EXTERNAL) {
    status = s->config.external(s->config.external_ctx, s, s->step);
  } else {
    lds_operand all[LDS_MAX_OPERANDS];
    int32_t parameters[LDS_MAX_PARAMETERS];
    (void)lds_session_operands(s, step, all, parameters);
    if (s->config.operators->ready != NULL) status = s->config.operators->ready(step->kind, all, parameters);
    if (status == LDS_OK) s->config.operators->run[step->kind](all, parameters);
  }
  for (k = step->inputs; k < operands && status == LDS_OK; ++k) {
    (void)lds_session_operand(s, s->step, k, &operand);
    status = lds_session_sync(s, &operand.tensor, LDS_DMA_TO_DEVICE);
  }
  return status;
}

static int sync_ports(lds_session *s, int section, int direction) {
  const lds_table ports = s->model->section[section];
  uint32_t k;
  for (k = 0; k < ports.count; ++k) {
    lds_tensor t;
    int status;
    lds_model_tensor(s->model, lds_u32(ports.bytes + 4u * k), &t);
    status = lds_session_sync(s, &t, direction);
    if (status != LDS_OK) return status;
  }
  return LDS_OK;
}

/* Executes host steps up to the next program, and starts it with those that may run concurrently: LDS_BUSY. LDS_OK: after the last step. */
static int advance(lds_session *s) {
  for (; s->step < s->end; ++s->step) {
    const lds_step step = lds_model_step(s->model, s->step);
    int status;
    if (step.kind == LDS_STEP_PROGRAM) {
      if (s->step < s->next) { /* it is in flight already */
        watch(s, lds_program_device(s, s->step));
        return LDS_BUSY;
      }
      s->spent += s->longest;
      s->longest = 0;
      lds_submit(s, s->step);
      if (s->config.further != NULL) s->config.further->start(s);
      return LDS_BUSY;
    }
    status = run_host_step(s, &step);
    if (status != LDS_OK) return status;
  }
  return sync_ports(s, LDS_OUTPUTS, LDS_DMA_FROM_DEVICE);
}

/* Ends a run with its status, and releases the device unless it is still running. */
static int finish(lds_session *s, int status) {
  s->phase = status == LDS_BUSY ? LDS_RUNNING : status == LDS_OK ? LDS_FINISHED : LDS_IDLE;
  if (status < 0) {
    s->last.fault.status = status;
    s->last.fault.step = s->step;
  }
  if (status != LDS_BUSY) lds_devices_release(s);
  return status;
}

int lds_session_start_steps(lds_session *s, uint32_t first, uint32_t end, int goes_on) {
  lds_device *device;
  uint32_t k;
  int status;
  if (s->phase == LDS_RUNNING || !claim(s)) return LDS_ERR_STATE;
  if (!goes_on) memset(&s->last, 0, sizeof s->last);
  s->step = s->next = first;
  s->end = end;
  s->spent = s->longest = 0;
  for (k = 0; (device = lds_session_device(s, k)) != NULL; ++k) {
    s->running = device;
    status = device->dead != 0 && lds_device_recover(device) == LDS_ERR_DEAD ? LDS_ERR_DEAD : lds_device_rest(device);
    if (status != LDS_OK) return finish(s, status);
  }
  status = goes_on ? LDS_OK : sync_ports(s, LDS_INPUTS, LDS_DMA_TO_DEVICE);
  status = finish(s, status == LDS_OK ? advance(s) : status);
  return status < 0 ? status : LDS_OK;
}

int lds_session_start(lds_session *s) { return s == NULL ? LDS_ERR_ARGUMENT : lds_session_start_steps(s, 0, lds_first_steps(s->model), 0); }

int lds_session_wait(lds_session *s, uint64_t timeout_ns) {
  uint64_t begin, until;
  if (s == NULL) return LDS_ERR_ARGUMENT;
  if (s->phase == LDS_IDLE) return LDS_ERR_STATE;
  if (s->phase == LDS_FINISHED) { /* another session may have acquired the device by now */
    s->phase = LDS_IDLE;
    return LDS_OK;
  }
  begin = now(s);
  until = timeout_ns > UINT64_MAX - begin ? UINT64_MAX : begin + timeout_ns;
  while (s->phase == LDS_RUNNING) {
    int status = poll(s, until);
    if (status == LDS_OK) {
      ++s->step;
      status = finish(s, advance(s));
    } else if (status < 0) {
      status = finish(s, status);
    }
    if (status < 0) return status;
    if (status == LDS_BUSY && now(s) >= until) return LDS_BUSY;
  }
  s->phase = LDS_IDLE;
  return LDS_OK;
}

int lds_session_stop(lds_session *s) {
  int status = LDS_OK;
  if (s == NULL) return LDS_ERR_ARGUMENT;
  if (s->phase == LDS_RUNNING) {
    (void)lds_device_recover(s->running);
    lds_devices_release(s);
    if (s->running->dead != 0) status = LDS_ERR_DEAD;
  }
  s->phase = LDS_IDLE;
  return status;
}

int lds_session_run(lds_session *s) {
  const int status = lds_session_start(s);
  return status == LDS_OK ? lds_session_wait(s, UINT64_MAX) : status;
}

void lds_session_counters(const lds_session *s, lds_counters *out) { *out = s->last.counters; }

void lds_session_fault(const lds_session *s, lds_fault *out) { *out = s->last.fault; }
