/* A run of MLonMCU: samples in, the network, outputs out; the exit code as a line.
 *
 * In:   mlif.h; BATCH_SIZE, the samples of this start at most.
 * Out:  lines that MLonMCU's target reads.
 * Next: mlonmcu/target/target.py there.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "mlif.h"

/* A run without samples (no feature set_inputs) is one of whatever stands in the inputs. */
__attribute__((weak)) int mlif_process_inputs(size_t index, bool *more) {
  *more = index == 0;
  return 0;
}

__attribute__((weak)) int mlif_process_outputs(size_t index) {
  (void)index;
  return 0;
}

static int all_samples(void) {
  size_t sample;
  for (sample = 0; sample < BATCH_SIZE; ++sample) {
    bool more = false;
    int status = mlif_process_inputs(sample, &more);
    if (status == 0 && !more) break;
    if (status == 0) status = mlif_invoke();
    (void)fflush(stdout); /* MLonMCU's code writes to the descriptor itself */
    if (status == 0) status = mlif_process_outputs(sample);
    if (status != 0) return status;
  }
  return 0;
}

int main(void) {
  int status = mlif_init();
  (void)printf("Program start.\n");
  if (status == 0) {
    status = all_samples();
    (void)mlif_deinit();
  }
  (void)printf("Program finish.\nMLONMCU EXIT: %d\n", status);
  return status;
}
