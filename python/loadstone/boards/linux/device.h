/* The device that a program is told to use.
 *
 * In:   its name, of the command line.
 * Out:  a HAL; a message on stderr and the end of the program where there is none.
 * Next: main.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_H
#define DEVICE_H

#include "loadstone.h"
#include "model.h"

#if defined(MODEL_ACCELERATORS) && MODEL_ACCELERATORS > MODEL_FIRST_IS_ACCELERATOR
#define OTHER_DEVICES (MODEL_ACCELERATORS - MODEL_FIRST_IS_ACCELERATOR)
#else
#define OTHER_DEVICES 0
#endif

/* The program's own: what it says to wrong words. */
extern const char usage[];

/* Why the first device has no more memory; "" where nothing is known. */
const char *memory_shortage(void);
/* Ends the program where `status` is an error. */
int check(int status, const char *what);
/* The HAL that DEVICE names; boards stay open until the program ends. number: 0, then those of other accelerators. */
const lds_hal *open_device(const char *device, uint32_t number);

#endif /* DEVICE_H */
