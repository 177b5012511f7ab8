/* The public face of the C runtime.
 *
 * In:   an artifact's bytes, a HAL, memory from the caller.
 * Out:  a session that runs the model.
 * Next: lds_hal.h is what a board implements.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOADSTONE_H
#define LOADSTONE_H

#ifndef LDS_CDEF
#include <stddef.h>
#include <stdint.h>
#endif

#if defined(LDS_CDEF)
#define LDS_EXPORT
#elif defined(__GNUC__)
#define LDS_EXPORT __attribute__((visibility("default")))
#else
#define LDS_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the C interface: major * 10000 + minor * 100 + patch. */
LDS_EXPORT uint32_t lds_version(void);

#ifdef __cplusplus
}
#endif

#endif /* LOADSTONE_H */
