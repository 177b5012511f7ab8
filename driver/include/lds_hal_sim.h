/* HALs without a board: the simulator in this process, and a device that does nothing.
 *
 * In:   a device configuration.
 * Out:  lds_hal structs; for the simulator shadow memory, faults and results.
 * Next: the runtime cannot tell them from a board.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_HAL_SIM_H
#define LDS_HAL_SIM_H

#include "lds_hal.h"
#include "lds_simdev.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  LDS_HAL_SIM_SHADOW = 1 /* CPU and device have copies of their own: only dma_sync moves data, as with caches that are not coherent */
};

typedef struct lds_hal_sim lds_hal_sim;

/* NULL when the configuration is invalid or memory is exhausted. registers: LDS_SIMDEV_*. DMA memory of pool_bytes is at bus address
 * 0x10000000. The struct is valid until destroy, which stops the device in any state; sessions that are still open become invalid. */
LDS_HAL_EXPORT lds_hal_sim *lds_hal_sim_create(const lds_hw_config *config, uint32_t bus_bits, int registers, size_t pool_bytes,
                                               uint32_t flags);
/* A further device that sees the memory of the first one, at the same bus addresses; destroy it before that one. */
LDS_HAL_EXPORT lds_hal_sim *lds_hal_sim_create_beside(lds_hal_sim *first, const lds_hw_config *config, uint32_t bus_bits, int registers);
LDS_HAL_EXPORT void lds_hal_sim_destroy(lds_hal_sim *sim);
/* Aborts the running program and ends the device's thread; its memory stays until destroy. Later runs end with an error. */
LDS_HAL_EXPORT void lds_hal_sim_quit(lds_hal_sim *sim);
LDS_HAL_EXPORT const lds_hal *lds_hal_sim_hal(lds_hal_sim *sim);
LDS_HAL_EXPORT lds_simdev *lds_hal_sim_device(lds_hal_sim *sim);

/* The memory as the device sees it, for another device on the same bus. */
LDS_HAL_EXPORT void lds_hal_sim_memory(lds_hal_sim *sim, uint8_t **bytes, uint64_t *bus, size_t *size_bytes);

/* A native device that reports DONE at once and computes nothing, so that only the host's cost remains. Free it with lds_hal_null_destroy.
 */
typedef struct lds_hal_null lds_hal_null;
LDS_HAL_EXPORT lds_hal_null *lds_hal_null_create(uint32_t config_hash, size_t pool_bytes);
LDS_HAL_EXPORT void lds_hal_null_destroy(lds_hal_null *null_device);
LDS_HAL_EXPORT const lds_hal *lds_hal_null_hal(lds_hal_null *null_device);

#ifdef __cplusplus
}
#endif

#endif /* LDS_HAL_SIM_H */
