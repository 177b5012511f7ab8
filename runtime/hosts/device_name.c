/* Devices by name: "sim", "simd:/run/sim.sock", "uio:/dev/uio0;registers=vta-hls".
 *
 * In:   the name.
 * Out:  lds_device_name; or a one-line error message.
 * Next: easy.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "device_name.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lds_simdev.h"

enum { POOL_MB = sizeof(size_t) > 4 ? 1024 : 64, MOST_MS = 24 * 3600 * 1000 };

static const struct {
  const char *name;
  lds_device_kind kind;
  const char *form; /* NULL: the kind takes no argument */
} kinds[] = {
    {"sim", LDS_KIND_SIM, NULL},
    {"null", LDS_KIND_NULL, NULL},
    {"simd", LDS_KIND_SIMD, "simd:SOCKET"},
    {"served", LDS_KIND_SERVED, "served:SOCKET"},
    {"uio", LDS_KIND_UIO, "uio:PATH[,UDMABUF]"},
    {"devmem", LDS_KIND_DEVMEM, "devmem:REGISTERS,MEMORY+BYTES"},
};

static const struct {
  const char *name;
  int page;
  size_t size_bytes;
} pages[] = {
    {"native", LDS_SIMDEV_NATIVE, 0x1000},
    {"vta-chisel", LDS_SIMDEV_CHISEL, 0x1000},
    {"vta-hls", LDS_SIMDEV_HLS, 0x4000},
};

int lds_easy_fail(lds_easy_error *error, int status, const char *format, ...) {
  va_list arguments;
  char *c;
  if (error == NULL) return status;
  error->status = status;
  va_start(arguments, format);
  (void)vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  for (c = error->text; *c != 0; ++c) {
    if ((unsigned char)*c < 0x20u || *c == 0x7F) *c = '?';
  }
  return status;
}

/* All of the text, as C writes numbers. */
static int number(const char *text, uint64_t *out) {
  char *end;
  if (*text < '0' || *text > '9') return 0;
  *out = strtoull(text, &end, 0);
  return *end == 0;
}

int lds_device_page(const char *text, lds_device_name *out) {
  size_t k;
  for (k = 0; k < sizeof pages / sizeof pages[0]; ++k) {
    if (strcmp(pages[k].name, text) != 0) continue;
    out->registers = lds_registers_named(text);
    out->page = pages[k].page;
    out->registers_bytes = pages[k].size_bytes;
    return 1;
  }
  return 0;
}

/* Of a device that another process has. */
static int served_option(const char *name, const char *key, const char *value, lds_device_name *out, lds_easy_error *error) {
  const uint64_t most_us = (uint64_t)MOST_MS * 1000u;
  uint64_t n = 0;
  const int is_number = number(value, &n);
  if (strcmp(key, "priority") == 0 && is_number && n <= UINT32_MAX) {
    out->priority = (uint32_t)n;
  } else if (strcmp(key, "period_us") == 0 && is_number && n <= most_us) {
    out->period_ns = n * 1000u;
  } else if (strcmp(key, "deadline_us") == 0 && is_number && n <= most_us) {
    out->deadline_ns = n * 1000u;
  } else {
    return lds_easy_fail(error, LDS_ERR_ARGUMENT,
                         "device '%s': option %s=%s is not one of priority=N, period_us=N, deadline_us=N (of a day at most); others are "
                         "for `loadstone serve`",
                         name, key, value);
  }
  return LDS_OK;
}

static int option(const char *name, const char *key, const char *value, lds_device_name *out, lds_easy_error *error) {
  uint64_t n = 0;
  if (strcmp(key, "registers") == 0) {
    if (lds_device_page(value, out)) return LDS_OK;
    return lds_easy_fail(error, LDS_ERR_ARGUMENT, "device '%s': registers=%s is not native, vta-chisel or vta-hls", name, value);
  }
  if (strcmp(key, "bus_offset") == 0 && number(value, &n)) {
    out->bus_offset = n;
  } else if (strcmp(key, "hang_ms") == 0 && number(value, &n) && n > 0 && n <= MOST_MS) {
    out->hang_ns = n * 1000000u;
  } else if (strcmp(key, "pool_mb") == 0 && number(value, &n) && n > 0 && n < (SIZE_MAX >> 21)) {
    out->pool_bytes = (size_t)n << 20;
  } else if (strcmp(key, "timing") == 0 && *value != 0) {
    strcpy(out->timing, value); /* a part of a copy of LDS_NAME_BYTES */
  } else if (strcmp(key, "further") == 0 && *value != 0 && out->kind == LDS_KIND_UIO) {
    strcpy(out->further, value); /* the same */
  } else {
    return lds_easy_fail(error, LDS_ERR_ARGUMENT,
                         "device '%s': option %s=%s is not one of registers=NAME, bus_offset=N, hang_ms=N, pool_mb=N, timing=FILE, "
                         "further=PATH[,PATH] (uio)",
                         name, key, value);
  }
  return LDS_OK;
}

/* devmem: REGISTERS,MEMORY+BYTES */
static int addresses(char *text, lds_device_name *out) {
  char *memory = strchr(text, ','), *bytes;
  uint64_t size = 0;
  if (memory == NULL) return 0;
  *memory++ = 0;
  bytes = strchr(memory, '+');
  if (bytes == NULL) return 0;
  *bytes++ = 0;
  if (!number(text, &out->registers_address) || !number(memory, &out->memory_address) || !number(bytes, &size)) return 0;
  out->memory_bytes = (size_t)size;
  return size > 0 && size <= SIZE_MAX;
}

static int place(char *text, lds_device_name *out) {
  char *second;
  if (out->kind == LDS_KIND_DEVMEM) return addresses(text, out);
  second = out->kind == LDS_KIND_UIO ? strchr(text, ',') : NULL;
  if (second != NULL) {
    *second++ = 0;
    strcpy(out->second, second); /* both are parts of a copy of LDS_NAME_BYTES */
  }
  strcpy(out->path, text);
  return *text != 0;
}

int lds_device_name_read(const char *name, lds_device_name *out, lds_easy_error *error) {
  char copy[LDS_NAME_BYTES], *options, *behind;
  size_t k = 0;
  memset(out, 0, sizeof *out);
  out->pool_bytes = (size_t)POOL_MB << 20;
  if (strlen(name) >= sizeof copy) {
    return lds_easy_fail(error, LDS_ERR_ARGUMENT, "device '%.40s...': a name of more than %d characters", name, LDS_NAME_BYTES - 1);
  }
  strcpy(copy, name);
  options = strchr(copy, ';');
  if (options != NULL) *options++ = 0;
  behind = strchr(copy, ':');
  if (behind != NULL) *behind++ = 0;
  while (k < sizeof kinds / sizeof kinds[0] && strcmp(kinds[k].name, copy) != 0) ++k;
  if (k == sizeof kinds / sizeof kinds[0]) {
    return lds_easy_fail(error, LDS_ERR_ARGUMENT,
                         "device '%s' is not one of sim, null, simd:SOCKET, served:SOCKET, uio:PATH[,UDMABUF], "
                         "devmem:REGISTERS,MEMORY+BYTES",
                         name);
  }
  out->kind = kinds[k].kind;
  if (kinds[k].form == NULL && behind != NULL) {
    return lds_easy_fail(error, LDS_ERR_ARGUMENT, "device '%s': %s accepts nothing after a colon", name, kinds[k].name);
  }
  if (kinds[k].form != NULL && (behind == NULL || !place(behind, out))) {
    return lds_easy_fail(error, LDS_ERR_ARGUMENT, "device '%s' is not %s", name, kinds[k].form);
  }
  while (options != NULL && *options != 0) {
    char *next = strchr(options, ';'), *value;
    int status;
    if (next != NULL) *next++ = 0;
    value = strchr(options, '=');
    if (value == NULL) return lds_easy_fail(error, LDS_ERR_ARGUMENT, "device '%s': option '%s' has no value", name, options);
    *value++ = 0;
    status = (out->kind == LDS_KIND_SERVED ? served_option : option)(name, options, value, out, error);
    if (status != LDS_OK) return status;
    options = next;
  }
  return LDS_OK;
}
