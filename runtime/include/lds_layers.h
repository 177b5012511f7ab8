/* What each layer leaves in memory, as digests: for debug builds. `loadstone compare --digests` finds the first that is wrong.
 *
 * In:   an open session whose inputs are set, and its model.
 * Out:  a digest for each layer's output and each output of a host step.
 * Next: docs/debug.md.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_LAYERS_H
#define LDS_LAYERS_H

#include "loadstone.h"

#ifdef __cplusplus
extern "C" {
#endif

/* digest: FNV-1a (32 bits) of the tensor's bytes in the order (N, H, W, C), without what fills blocks. behind: the layer's last store,
 * counted in its step; of a host step the number of the output. */
typedef void (*lds_digest_function)(void *ctx, uint32_t step, uint32_t behind, uint32_t elements, uint32_t digest);

/* Runs the session once for each layer, from the last one to the first, and stops behind it: what comes after it is not stored.
 * model: the one that the session was opened with. Afterwards the session can only be closed: its instructions are changed.
 * LDS_ERR_STATE where they stand in the file itself, which is not ours to change (model_bus). */
LDS_EXPORT int lds_session_digests(lds_session *session, lds_model *model, lds_digest_function tell, void *ctx);

#ifdef __cplusplus
}
#endif

#endif /* LDS_LAYERS_H */
