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

/* device.c: fills in the HAL for the device at BOARD_REGISTERS. */
void board_open(lds_hal *hal);
/* device.c: what the handler of the device's interrupt calls. */
void board_interrupt(void);

/* board.c: the clock, the interrupt and, with a data cache, its hooks; registers and memory are there already. */
void board_port(lds_baremetal *port);
/* board.c: the handler that startup.c calls for an interrupt. */
void board_irq_handler(void);
void board_print(const char *text);
void board_exit(int status);

/* print.c */
void print_number(uint32_t value);
/* name, then the value in as many hexadecimal digits as an address has. */
void print_hex(const char *name, uintptr_t value);

#endif /* BOARD_H */
