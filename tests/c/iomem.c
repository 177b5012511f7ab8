/* Whether Linux leaves addresses alone, as a file in the form of /proc/iomem has it.
 *
 * In:   that file; "registers" or "memory"; address; size.
 * Out:  "yes", or the line that refuses them. /dev/null stands for a device.
 * Next: driver/test_linux_board.py.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linux_board.h"

int main(int argc, char **argv) {
  static lds_linux board;
  const int fd = open("/dev/null", O_RDONLY);
  if (argc != 5 || fd < 0) return 2;
  lds_linux_begin(&board);
  puts(lds_linux_is_reserved(&board, argv[1], fd, strcmp(argv[2], "registers") == 0, strtoull(argv[3], NULL, 0), strtoull(argv[4], NULL, 0))
           ? "yes"
           : board.message);
  return 0;
}
