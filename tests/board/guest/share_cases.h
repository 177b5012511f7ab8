/* Several networks on the device of a board, whatever it boots.
 *
 * In:   a board, whose `model` is what tests/board/sharing.py packs: networks, when each is released, what each gives alone.
 * Out:  a line for each network.
 * Next: firmware.c and user/main.c call it, in place of run_cases().
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARE_CASES_H
#define SHARE_CASES_H

#include "run_cases.h"

/* Prints, per network, "network K runs N failures F wrong W worst CYCLES", then "switches N" and "done". 0, or the first status of a call
 * that failed. */
int share_cases(const board *b);

#endif
