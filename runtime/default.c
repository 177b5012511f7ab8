/* The configuration of a session with everything linked in.
 *
 * In:   nothing.
 * Out:  lds_session_config_default.
 * Next: a port that trusts its files or needs no host operators fills the struct itself, and the linker leaves those out.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "loadstone.h"

void lds_session_config_default(lds_session_config *config) {
  memset(config, 0, sizeof *config);
  config->validate = &lds_validator;
  config->operators = &lds_operators;
  config->most_ns = lds_most_ns;
  config->model_bus = LDS_NOT_IN_PLACE;
}
