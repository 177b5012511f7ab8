/* What MLonMCU's interface calls of a network: MLIF's entry points, version 2 of them.
 *
 * In:   nothing: the model and the device are the build's.
 * Out:  memory of inputs and outputs, and a run; functions return 0, or MLIF's exit code.
 * Next: main.c and the C++ that MLonMCU writes for a run (MODEL_SUPPORT_FILE).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_MLIF_H
#define LDS_MLIF_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

int mlif_init(void);
int mlif_num_inputs(void);
int mlif_num_outputs(void);
void *mlif_input_ptr(int index);
void *mlif_output_ptr(int index);
int mlif_input_sz(int index);
int mlif_output_sz(int index);
int mlif_invoke(void);
int mlif_deinit(void);

/* The run's own: brings sample `index`, or clears *more where there is none; takes its outputs. */
int mlif_process_inputs(size_t index, bool *more);
int mlif_process_outputs(size_t index);

#ifdef __cplusplus
}
#endif

#endif /* LDS_MLIF_H */
