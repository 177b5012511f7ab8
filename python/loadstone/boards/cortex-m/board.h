/* What main.c needs of the board.
 *
 * In:   board.c.
 * Out:  declarations.
 * Next: -
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOARD_H
#define BOARD_H

#include "loadstone.h"

/* Fills in the HAL for the device at MODEL_REGISTER_BASE. */
void board_open(lds_hal *hal);
void board_print(const char *text);
void board_exit(int status);

#endif /* BOARD_H */
