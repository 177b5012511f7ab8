/* Everything that libloadstone exports, for cffi.
 *
 * In:   the public headers of runtime/, runtime/hosts/, driver/ and hw_sim/, and those of native/, which only Python uses.
 * Out:  one text for `cffi.cdef`, which the C preprocessor makes with LDS_CDEF defined, so that system headers are left out.
 * Next: python/loadstone/library/native.py.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "lds_easy.h"
#include "lds_hal_linux.h"
#include "lds_hal_sim.h"
#include "lds_hal_simd.h"
#include "lds_order.h"
#include "lds_prefetch.h"
#include "lds_rescale.h"
#include "lds_reside.h"
#include "lds_schedule.h"
#include "lds_serve.h"
#include "lds_sim.h"
#include "lds_simdev.h"
#include "lds_weights4.h"
#include "loadstone.h"
