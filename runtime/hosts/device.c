/* A device with its driver: opened for its first network, closed after its last one.
 *
 * In:   lds_device_name.
 * Out:  lds_easy_device_open and lds_easy_device_close; lds_device_driver, lds_driver_open.
 * Next: beside.c opens further ones; easy.c opens networks on them.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* pthread */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "beside.h"
#include "lds_isa.h"

int lds_easy_device_open(const char *name, lds_easy_device **out, lds_easy_error *error) {
  lds_easy_device *d;
  int status;
  if (out == NULL || name == NULL) return lds_easy_fail(error, LDS_ERR_ARGUMENT, "the device's name or the pointer for its handle is NULL");
  *out = NULL;
  d = calloc(1, sizeof *d);
  if (d == NULL) return lds_easy_fail(error, LDS_ERR_MEMORY, "device '%s': out of memory", name);
  status = lds_device_name_read(name, &d->name, error);
  if (status != LDS_OK || pthread_mutex_init(&d->lock, NULL) != 0) {
    free(d);
    return status != LDS_OK ? status : lds_easy_fail(error, LDS_ERR_MEMORY, "device '%s': the system cannot create a mutex", name);
  }
  strcpy(d->text, name); /* read: it is short enough */
  d->users = 1;
  *out = d;
  return lds_easy_fail(error, LDS_OK, "%s", "");
}

void lds_driver_close(lds_driver *driver) {
  lds_hal_sim_destroy(driver->sim);
  lds_hal_null_destroy(driver->null);
  if (driver->simd != NULL) lds_hal_simd_close(driver->simd);
  if (driver->board != NULL) lds_linux_close(driver->board);
  free(driver->board);
  memset(driver, 0, sizeof *driver);
}

void lds_easy_device_close(lds_easy_device *d) {
  uint32_t left;
  if (d == NULL) return;
  (void)pthread_mutex_lock(&d->lock);
  left = --d->users;
  (void)pthread_mutex_unlock(&d->lock);
  if (left != 0) return;
  lds_beside_close_all(d);
  lds_driver_close(&d->own);
  (void)pthread_mutex_destroy(&d->lock);
  free(d);
}

int lds_easy_device_external(lds_easy_device *d, lds_easy_external external, void *ctx) {
  if (d == NULL) return LDS_ERR_ARGUMENT;
  (void)pthread_mutex_lock(&d->lock);
  d->external = external;
  d->external_ctx = ctx;
  (void)pthread_mutex_unlock(&d->lock);
  return LDS_OK;
}

/* The constants of a file into the simulator, which then counts cycles. */
static int take_timing(lds_easy_device *d, lds_sim *sim, lds_easy_error *error) {
  char name[64];
  long long value;
  int status = LDS_OK, read = 2;
  FILE *file = fopen(d->name.timing, "r");
  if (file == NULL) return lds_easy_fail(error, LDS_ERR_ARGUMENT, "%.200s: %s", d->name.timing, strerror(errno));
  while (status == LDS_OK && (read = fscanf(file, "%63s %lld", name, &value)) == 2) {
    if (lds_sim_set_timing(sim, name, value) != LDS_SIM_OK) {
      status = lds_easy_fail(error, LDS_ERR_ARGUMENT, "%.200s: %.200s", d->name.timing, lds_sim_message(sim));
    }
  }
  if (status == LDS_OK && read != EOF) {
    status = lds_easy_fail(error, LDS_ERR_ARGUMENT, "%.200s: a line is not `NAME VALUE`", d->name.timing);
  }
  (void)fclose(file);
  return status;
}

static lds_hw_config config_of(const lds_model *model, uint32_t number) {
  lds_hw_config config;
  memcpy(&config, lds_model_fingerprint(model, number), sizeof config);
  return config;
}

/* --- drivers ----------------------------------------------------------------------------------------------------------------- */
/* A further one stands beside the device's own, and has its memory. */
static int open_sim(lds_easy_device *d, const lds_hw_config *config, int page, lds_driver *out, const lds_hal **hal,
                    lds_easy_error *error) {
  lds_sim *sim;
  out->sim = out == &d->own ? lds_hal_sim_create(config, 64, page, d->name.pool_bytes, 0)
                            : lds_hal_sim_create_beside(d->own.sim, config, 64, page);
  if (out->sim == NULL && out != &d->own) {
    return lds_easy_fail(error, LDS_ERR_MEMORY,
                         "device '%s': a further device cannot be simulated: it has no such configuration, or no memory", d->text);
  }
  if (out->sim == NULL) {
    return lds_easy_fail(error, LDS_ERR_MEMORY, "device '%s': %lu MB of memory are not available: request less, ;pool_mb=N", d->text,
                         (unsigned long)(d->name.pool_bytes >> 20));
  }
  sim = lds_simdev_sim(lds_hal_sim_device(out->sim));
  *hal = lds_hal_sim_hal(out->sim);
  (void)lds_sim_set_option(sim, LDS_SIM_TIMING, d->name.timing[0] != 0);
  if (d->name.timing[0] == 0) return LDS_OK;
  if (out == &d->own && lds_simdev_share_bus(lds_hal_sim_device(out->sim), lds_hal_sim_device(out->sim)) != LDS_SIM_OK) {
    return lds_easy_fail(error, LDS_ERR_MEMORY, "device '%s': out of memory", d->text); /* further ones may come while it works */
  }
  return take_timing(d, sim, error);
}

static int open_null(lds_easy_device *d, uint32_t config_hash, lds_driver *out, const lds_hal **hal, lds_easy_error *error) {
  out->null = lds_hal_null_create(config_hash, d->name.pool_bytes);
  if (out->null == NULL) return lds_easy_fail(error, LDS_ERR_MEMORY, "device '%s': out of memory", d->text);
  *hal = lds_hal_null_hal(out->null);
  return LDS_OK;
}

static int open_simd(const char *socket, lds_driver *out, const lds_hal **hal, lds_easy_error *error) {
  const int status = lds_hal_simd_open(socket, &out->simd);
  const char *why = status == LDS_HAL_UNSUPPORTED ? "is of another version of loadstone"
                    : status == LDS_HAL_TIMEOUT   ? "is in use by another client"
                    : status == LDS_HAL_NO_MEMORY ? "has memory that cannot be mapped safely"
                                                  : "does not answer: start `loadstone simd SOCKET`";
  if (status != LDS_HAL_OK) return lds_easy_fail(error, LDS_ERR_ABSENT, "the simulator at %.300s %s", socket, why);
  *hal = lds_hal_simd_hal(out->simd);
  return LDS_OK;
}

static int open_board(lds_easy_device *d, const char *uio, size_t registers_bytes, lds_driver *out, const lds_hal **hal,
                      lds_easy_error *error) {
  const lds_device_name *n = &d->name;
  const char *udmabuf = out == &d->own && n->second[0] != 0 ? n->second : NULL;
  int status;
  out->board = calloc(1, sizeof *out->board);
  if (out->board == NULL) return lds_easy_fail(error, LDS_ERR_MEMORY, "device '%s': out of memory", d->text);
  status = n->kind == LDS_KIND_UIO ? lds_linux_open_uio(out->board, uio, registers_bytes, udmabuf, n->bus_offset, NULL)
                                   : lds_linux_open_devmem(out->board, "/dev/mem", n->registers_address, n->registers_bytes,
                                                           n->memory_address, n->memory_bytes, n->bus_offset);
  if (status == LDS_HAL_OK) {
    *hal = &out->board->hal;
    return LDS_OK;
  }
  (void)lds_easy_fail(error, LDS_ERR_ABSENT, "device '%s': %s", d->text, out->board->message);
  free(out->board);
  out->board = NULL; /* it closed itself */
  return LDS_ERR_ABSENT;
}

int lds_driver_open(lds_easy_device *d, const lds_model *model, uint32_t number, const char *place, lds_driver *out,
                    lds_easy_error *error) {
  const lds_hw_config config = config_of(model, number);
  lds_device_name page = d->name;
  const lds_hal *hal = NULL;
  int status;
  if (number != 0 && (config.capabilities & LDS_CAP_REGIONS) != 0) (void)lds_device_page("native", &page);
  switch (d->name.kind) {
    case LDS_KIND_SIM:
      status = open_sim(d, &config, page.page, out, &hal, error);
      break;
    case LDS_KIND_NULL:
      status = open_null(d, lds_model_config_hash(model, number), out, &hal, error);
      break;
    case LDS_KIND_SIMD:
      status = open_simd(place, out, &hal, error);
      break;
    default:
      status = open_board(d, place, page.registers_bytes, out, &hal, error);
  }
  if (status == LDS_OK) {
    status = lds_device_open(&out->device, hal, page.registers, 0);
    if (status != LDS_OK) (void)lds_easy_fail(error, status, "device '%s': %s", d->text, lds_status_text(status));
  }
  if (status != LDS_OK) lds_driver_close(out);
  return status;
}

/* Chooses the register page if the name does not specify it: a device with DRAM regions has the native one, as no other has registers for
 * them; one without them may have any, and a simulated one gets VTA's. */
static int choose_page(lds_easy_device *d, const lds_model *model, lds_easy_error *error) {
  const lds_hw_config config = config_of(model, 0);
  const int regions = (config.capabilities & LDS_CAP_REGIONS) != 0;
  if (d->name.registers == NULL && (regions || d->name.kind == LDS_KIND_NULL || d->name.kind == LDS_KIND_SIM)) {
    (void)lds_device_page(regions || d->name.kind == LDS_KIND_NULL ? "native" : "vta-hls", &d->name);
  }
  if (d->name.registers != NULL) return LDS_OK;
  return lds_easy_fail(error, LDS_ERR_CONFIG,
                       "device '%s': the model was compiled for a VTA without DRAM regions: name its register page, "
                       "registers=vta-hls, registers=vta-chisel or registers=native",
                       d->text);
}

int lds_device_driver(lds_easy_device *d, const lds_model *model, lds_easy_error *error) {
  int status;
  if (d->own.device.hal != NULL) return LDS_OK;
  status = choose_page(d, model, error);
  return status == LDS_OK ? lds_driver_open(d, model, 0, d->name.path, &d->own, error) : status;
}
