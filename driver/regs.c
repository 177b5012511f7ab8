/* Register blocks by name.
 *
 * In:   the name that a device's JSON gives under `registers`.
 * Out:  its table of operations.
 * Next: a program that determines its board at run time; firmware names the table it needs.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "lds_hal.h"

const lds_register_block *lds_registers_named(const char *name) {
  static const lds_register_block *const blocks[] = {&lds_registers_native, &lds_registers_chisel, &lds_registers_hls};
  size_t k;
  for (k = 0; k < sizeof blocks / sizeof blocks[0]; ++k) {
    if (strcmp(blocks[k]->name, name) == 0) return blocks[k];
  }
  return NULL;
}
