/* The HAL of a simulator that is a process of its own: `loadstone simd SOCKET`.
 *
 * In:   the path of its socket.
 * Out:  an lds_hal.
 * Next: the runtime cannot tell it from a board. The protocol is described in python/loadstone/simulator/simd.py.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_HAL_SIMD_H
#define LDS_HAL_SIMD_H

#include "lds_hal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lds_hal_simd lds_hal_simd;

/* LDS_HAL_OK; LDS_HAL_FAILED: no server listens or answers; LDS_HAL_UNSUPPORTED: it uses another version of the protocol;
 * LDS_HAL_TIMEOUT: another client is connected; LDS_HAL_NO_MEMORY: its memory cannot be mapped, or is a file that may be truncated
 * while it is mapped (`--memory FILE`, which is for an emulated machine). When the server ends later, registers read as all ones, as on
 * an empty bus. */
LDS_HAL_EXPORT int lds_hal_simd_open(const char *socket_path, lds_hal_simd **out);
LDS_HAL_EXPORT void lds_hal_simd_close(lds_hal_simd *simd);
LDS_HAL_EXPORT const lds_hal *lds_hal_simd_hal(lds_hal_simd *simd);
/* The reason why no DMA memory was available; "" if it was. */
LDS_HAL_EXPORT const char *lds_hal_simd_message(const lds_hal_simd *simd);

#ifdef __cplusplus
}
#endif

#endif /* LDS_HAL_SIMD_H */
