/* What a status means, in words.
 *
 * In:   an LDS_* status.
 * Out:  one line.
 * Next: left out of the link by firmware that does not ask.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "loadstone.h"

const char *lds_status_text(int status) {
  static const struct {
    int status;
    const char *text;
  } texts[] = {
      {LDS_OK, "no error"},
      {LDS_BUSY, "the device is still working"},
      {LDS_ERR_ARGUMENT, "an argument is NULL, an index too large, or a size not the tensor's"},
      {LDS_ERR_STATE, "called in the wrong order: wait needs a start, I/O a session that is not running, start a device that runs none"},
      {LDS_ERR_MEMORY, "memory is too small, or no DMA memory is left"},
      {LDS_ERR_ADDRESS, "a buffer's bus address is misaligned or beyond what the device can address"},
      {LDS_ERR_PLACE, "a position, or the rows behind it, lie beyond the places of the model's caches"},
      {LDS_ERR_CANCELLED, "the run was cancelled before its end"},
      {LDS_ERR_MAGIC, "not a Loadstone artifact"},
      {LDS_ERR_VERSION, "the artifact's format is older or newer than what this runtime reads: compile it again"},
      {LDS_ERR_TRUNCATED, "the artifact's size is not what its header says"},
      {LDS_ERR_CHECKSUM, "the artifact's content is damaged"},
      {LDS_ERR_FORMAT, "a table of the artifact breaks a rule of FORMAT.md"},
      {LDS_ERR_OPERATOR, "a host step breaks a rule of FORMAT.md, or its operator is not linked in"},
      {LDS_ERR_EXTERNAL, "a step needs a function that only the Python runtime has"},
      {LDS_ERR_ACCELERATOR, "a step is for a device that the session was not given"},
      {LDS_ERR_CONFIG, "the model was compiled for another device"},
      {LDS_ERR_INSTRUCTION, "an instruction that the device does not know, or for which it lacks the capability"},
      {LDS_ERR_DRAM, "an instruction leaves its DRAM region, or stores where it may not"},
      {LDS_ERR_SRAM, "an instruction leaves a scratchpad"},
      {LDS_ERR_UOP, "an instruction uses micro-ops that were not loaded, or loads them from where they may change"},
      {LDS_ERR_TOKEN, "the tokens of a program deadlock, overflow, or are left over"},
      {LDS_ERR_FINISH, "a program does not end with a FINISH that waits for load and store"},
      {LDS_ERR_RESIDUE, "an instruction may read from a scratchpad what another program has left there"},
      {LDS_ERR_DEVICE, "the device stopped with an error"},
      {LDS_ERR_HUNG, "the device hung and was reset"},
      {LDS_ERR_DEAD, "the device hung and does not answer a reset"},
      {LDS_ERR_ABSENT, "no device answers"},
      {LDS_ERR_HAL, "a HAL callback failed, is missing, or the HAL has another ABI version"},
  };
  size_t k;
  for (k = 0; k < sizeof texts / sizeof texts[0]; ++k) {
    if (texts[k].status == status) return texts[k].text;
  }
  return "unknown status";
}
