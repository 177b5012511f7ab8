/* The version of the C interface.
 *
 * In:   nothing.
 * Out:  lds_version().
 * Next: a caller that was compiled against another version can tell.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "loadstone.h"

uint32_t lds_version(void) { return 100u; }
