/* A program that loads the plug-in as QEMU does, and says that it is QEMU 8.0.
 *
 * In:   the plug-in's path.
 * Out:  what the plug-in thinks of that.
 * Next: test_cortex_m.py.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  int64_t *qemu;
  char *package;
} version_info;

version_info *qmp_query_version(void **error);

version_info *qmp_query_version(void **error) {
  static int64_t version[3] = {8, 0, 0};
  static version_info info = {version, ""};
  (void)error;
  return &info;
}

int main(int argc, char **argv) {
  void *plugin = argc == 2 ? dlopen(argv[1], RTLD_LAZY) : NULL;
  int (*install)(uint64_t, const void *, int, char **) =
      plugin ? (int (*)(uint64_t, const void *, int, char **))dlsym(plugin, "qemu_plugin_install") : NULL;
  return install ? install(0, NULL, 0, NULL) : 2;
}
