/* A digest of each layer's output, for debug builds: `loadstone compare --digests` finds the first layer that is wrong.
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

/* digest: 32-bit FNV-1a of the tensor's bytes in the order (N, H, W, C), without the padding of blocks. behind: for a device step the
 * index of the layer's last STORE in the step's program; for a host step the index of the output. */
typedef void (*lds_digest_function)(void *ctx, uint32_t step, uint32_t behind, uint32_t elements, uint32_t digest);

/* Runs the session once for each layer, from the last layer to the first; each run ends after its layer, so that no later layer
 * overwrites the output. model: the one that the session was opened with. The instructions are changed: afterwards the session can
 * only be closed. LDS_ERR_STATE where the device executes them in the caller's artifact (model_bus). */
LDS_EXPORT int lds_session_digests(lds_session *session, lds_model *model, lds_digest_function tell, void *ctx);

#ifdef __cplusplus
}
#endif

#endif /* LDS_LAYERS_H */
