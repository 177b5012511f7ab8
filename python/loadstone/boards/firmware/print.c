/* Numbers as text, without a libc.
 *
 * In:   board_print() of board.c.
 * Out:  what main.c and startup.c say.
 * Next: -
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"

void print_number(uint32_t value) {
  char text[11], *p = text + 10;
  *p = '\0';
  do {
    *--p = (char)('0' + value % 10u);
    value /= 10u;
  } while (value > 0);
  board_print(p);
}

void print_hex(const char *name, uintptr_t value) {
  enum { DIGITS = 2 * sizeof value };
  char text[DIGITS + 4] = " 0x";
  int k;
  for (k = 0; k < DIGITS; ++k) text[3 + k] = "0123456789abcdef"[value >> (4 * (DIGITS - 1 - k)) & 15u];
  text[DIGITS + 3] = '\0';
  board_print(name);
  board_print(text);
}
