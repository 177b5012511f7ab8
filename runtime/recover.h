/* What a device does, and how it is brought to rest. Private to runtime/.
 *
 * In:   an open device.
 * Out:  its state; a device that rests.
 * Next: recover.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_RECOVER_H
#define LDS_RECOVER_H

#include "loadstone.h"

/* A time is looked at in so many pieces. */
enum { LDS_SLICES = 8 };

/* The device's state, one of LDS_STATE_* or LDS_ABSENT, with what else it says. */
uint32_t lds_device_look(lds_device *device, lds_device_state *state);
/* Between two looks at a device: a program that took so long already is looked at an eighth of that later, which is little to lose. */
void lds_device_pause(const lds_hal *hal, uint64_t passed_ns, uint64_t left_ns);
/* Stops the device whatever it does: LDS_ERR_HUNG when it is usable again, else LDS_ERR_DEAD. */
int lds_device_recover(lds_device *device);
/* Sees to it that the device works for nobody: LDS_OK, LDS_ERR_ABSENT, or LDS_ERR_DEAD when what it does does not end. */
int lds_device_rest(lds_device *device);

#endif /* LDS_RECOVER_H */
