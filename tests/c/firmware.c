/* The least that a firmware does, to measure what the linker keeps of the runtime. It is linked, not run.
 *
 * In:   FULL defined: validator and operators, with REAL those of real numbers; SHARED: as one of several networks; else a device program
 * alone, from a file that is trusted. Out:  an image whose map test_c.py reads. Next: -
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "lds_schedule.h"
#include "loadstone.h"

extern const uint8_t model_bytes[];
extern const uint32_t model_size_bytes;
extern const lds_hal board;
extern uint8_t input[16], output[16];

int run(void);
void _start(void);

int run(void) {
  static uint64_t memory[2048];
  lds_model model;
  lds_device device;
  lds_session_config config;
  lds_session *session;
#ifdef FULL
  lds_session_config_default(&config);
#ifdef REAL
  lds_session_config_real(&config);
#endif
#else
  memset(&config, 0, sizeof config);
  config.hang_ns = 1000000000u;
  config.model_bus = LDS_NOT_IN_PLACE;
#endif
  if (lds_model_open(&model, model_bytes, model_size_bytes) != LDS_OK) return 1;
  if (lds_device_open(&device, &board, &lds_registers_native, 0) != LDS_OK) return 1;
  if (lds_session_open(&session, &model, &device, &config, memory, sizeof memory, NULL) != LDS_OK) return 1;
  if (lds_session_set_input(session, 0, input, sizeof input) != LDS_OK) return 1;
#ifdef SHARED
  {
    static uint32_t scratch[8192];
    static lds_task task;
    lds_schedule schedule;
    lds_task_config how;
    lds_task_config_default(&how);
    how.isolated = lds_model_isolated;
    how.scratch = scratch;
    how.scratch_bytes = sizeof scratch;
    lds_schedule_init(&schedule);
    if (lds_schedule_add(&schedule, &task, session, &how) != LDS_OK || lds_task_release(&task, 0) != LDS_OK) return 1;
    while (lds_schedule_step(&schedule, board.now_ns(board.ctx), UINT64_MAX) == LDS_BUSY) continue;
  }
#else
  if (lds_session_run(session) != LDS_OK) return 1;
#endif
  return lds_session_get_output(session, 0, output, sizeof output);
}

void _start(void) {
  for (;;) (void)run();
}
