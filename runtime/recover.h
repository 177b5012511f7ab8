/* Read the state of a device, and stop it. Private to runtime/.
 *
 * In:   an open device.
 * Out:  its state; a device that is idle.
 * Next: recover.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_RECOVER_H
#define LDS_RECOVER_H

#include "loadstone.h"

/* A time limit is divided into this many intervals, after each of which the device is polled. */
enum { LDS_SLICES = 8 };

/* Returns the device's state, one of LDS_STATE_* or LDS_ABSENT; *state receives the other fields of its register page. */
uint32_t lds_device_look(lds_device *device, lds_device_state *state);
/* Sleeps between two polls of a device, for an eighth of the time that has passed: the delay in noticing the end stays a small share. */
void lds_device_pause(const lds_hal *hal, uint64_t passed_ns, uint64_t left_ns);
/* Stops the device whatever it does: LDS_ERR_HUNG when it is usable again, else LDS_ERR_DEAD. */
int lds_device_recover(lds_device *device);
/* Makes sure that the device executes no program: LDS_OK, LDS_ERR_ABSENT, or LDS_ERR_DEAD when its program cannot be ended. */
int lds_device_rest(lds_device *device);

#endif /* LDS_RECOVER_H */
