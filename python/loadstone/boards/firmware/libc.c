/* The functions of libc that the runtime uses, and what a compiler may make of a loop that copies, for a firmware without one.
 *
 * In:   -
 * Out:  memcpy, memmove, memset.
 * Next: leave this file out if you link newlib.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>

__attribute__((optimize("no-tree-loop-distribute-patterns"))) void *memcpy(void *to, const void *from, size_t size) {
  uint8_t *d = to;
  const uint8_t *s = from;
  while (size-- > 0) *d++ = *s++;
  return to;
}

__attribute__((optimize("no-tree-loop-distribute-patterns"))) void *memset(void *to, int value, size_t size) {
  uint8_t *d = to;
  while (size-- > 0) *d++ = (uint8_t)value;
  return to;
}

__attribute__((optimize("no-tree-loop-distribute-patterns"))) void *memmove(void *to, const void *from, size_t size) {
  uint8_t *d = to;
  const uint8_t *s = from;
  if ((uintptr_t)d <= (uintptr_t)s) return memcpy(to, from, size);
  while (size-- > 0) d[size] = s[size];
  return to;
}
