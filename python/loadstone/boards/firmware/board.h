/* What a firmware's parts need of each other.
 *
 * In:   board.c, the port: clock, interrupt, printing. device.c: the device. print.c: numbers.
 * Out:  declarations.
 * Next: -
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOARD_H
#define BOARD_H

#include "lds_hal_baremetal.h"
#include "loadstone.h"
#ifdef BOARD_ACCELERATORS_IRQ
#include "model.h"
#endif

/* The last of the interrupts of the model's devices: BOARD_IRQ is the first one's; the others' begin at BOARD_ACCELERATORS_IRQ. */
#if !defined(BOARD_ACCELERATORS_IRQ) || !defined(MODEL_ACCELERATORS)
#define BOARD_LAST_IRQ BOARD_IRQ
#elif !defined(BOARD_IRQ)
#error "BOARD_ACCELERATORS_IRQ is of the devices behind the first one, which has none: give BOARD_IRQ, too"
#elif BOARD_ACCELERATORS_IRQ + MODEL_ACCELERATORS > BOARD_IRQ + MODEL_FIRST_IS_ACCELERATOR
#define BOARD_LAST_IRQ (BOARD_ACCELERATORS_IRQ + MODEL_ACCELERATORS - MODEL_FIRST_IS_ACCELERATOR - 1)
#else
#define BOARD_LAST_IRQ BOARD_IRQ
#endif

/* device.c: fills in the HAL for the device at BOARD_REGISTERS. */
void board_open(lds_hal *hal);
/* device.c: what the handler of an interrupt calls with its number; returns whether it is that of a device. */
int board_interrupt(uint32_t irq);

/* board.c: the clock, the interrupt and, with a data cache, its hooks; registers and memory are there already. */
void board_port(lds_baremetal *port);
/* board.c: the handler that startup.c calls for every interrupt. */
void board_irq_handler(void);
void board_print(const char *text);
void board_exit(int status);

/* print.c */
void print_number(uint32_t value);
/* name, then the value in as many hexadecimal digits as an address has. */
void print_hex(const char *name, uintptr_t value);

#endif /* BOARD_H */
