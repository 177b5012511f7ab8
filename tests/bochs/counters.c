// What was executed, printed at the end: the counters of gcc's --coverage, from a machine without files to write.
//
// In:   objects compiled with -fprofile-info-section=lds_counters.
// Out:  a line "counters HEX" with the contents of a .gcda file.
// Next: tests/bochs/coverage.py gives it to gcov.
// SPDX-License-Identifier: Apache-2.0
#include <gcov.h>
#include <stdio.h>
#include <stdlib.h>

// The section's begin and end are the linker's names for them.
extern const struct gcov_info *const __start_lds_counters[];
extern const struct gcov_info *const __stop_lds_counters[];

static void skip_name(const char *name, void *unused) {
  (void)name;
  (void)unused;
}

static void print_bytes(const void *bytes, unsigned count, void *unused) {
  (void)unused;
  for (unsigned k = 0; k < count; ++k) printf("%02x", ((const unsigned char *)bytes)[k]);
}

static void *allocate(unsigned bytes, void *unused) {
  (void)unused;
  return malloc(bytes);
}

__attribute__((destructor)) static void print_counters(void) {
  printf("counters ");
  for (const struct gcov_info *const *info = __start_lds_counters; info != __stop_lds_counters; ++info)
    __gcov_info_to_gcda(*info, skip_name, print_bytes, allocate, NULL);
  printf("\n");
}
