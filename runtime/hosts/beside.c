/* Further devices: found by their names, opened for the first network that has programs for them.
 *
 * In:   the devices of an artifact, which may be anything: it may come from another process.
 * Out:  the functions of beside.h.
 * Next: device.c opens a driver; runtime/accelerator.c finds an accelerator by its name.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lds_isa.h"

/* --- what an artifact says --------------------------------------------------------------------------------------------------- */
/* Whether a device is a VTA, whose fingerprint is its configuration and zeros. */
static int is_vta(const lds_model *model, uint32_t number) {
  static const uint8_t zeros[LDS_FINGERPRINT_BYTES - sizeof(lds_hw_config)];
  return memcmp(lds_model_fingerprint(model, number) + sizeof(lds_hw_config), zeros, sizeof zeros) == 0;
}

/* Names are parts of paths. */
static int is_plain(const char *name) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  const size_t length = strspn(name, allowed);
  return length > 0 && length < LDS_NAME_BYTES && name[length] == 0;
}

/* The name of the device whose bus one shares, in the text of JSON; NULL: it has a bus of its own. A quotation mark inside a string is
 * escaped, so that this is a key. */
static const char *bus_of(const lds_model *model, uint32_t number) {
  static const char key[] = "\"bus_of\": \"";
  const char *at = strstr(lds_model_device_attributes(model, number), key);
  return at == NULL ? NULL : at + sizeof key - 1u;
}

/* Whether it is that of device 0, as it is for equal devices. */
static int is_of_first(const lds_model *model, const char *bus) {
  const char *first = lds_model_device(model, 0);
  const size_t length = strlen(first);
  return strncmp(bus, first, length) == 0 && bus[length] == '"';
}

/* The UIO device of NAME.k is the k-th of the option, where NAME is device 0 of the model. */
static int uio_of(const lds_easy_device *d, const lds_model *model, const char *name, char *out) {
  const char *first = lds_model_device(model, 0), *path = d->name.further;
  const size_t length = strlen(first);
  unsigned long k;
  char *end;
  if (strncmp(name, first, length) != 0 || name[length] != '.' || name[length + 1u] < '1' || name[length + 1u] > '9') return 0;
  k = strtoul(name + length + 1u, &end, 10);
  if (*end != 0) return 0;
  for (; k > 1 && path != NULL; --k) {
    path = strchr(path, ',');
    if (path != NULL) ++path;
  }
  if (path == NULL || *path == 0 || *path == ',') return 0;
  (void)snprintf(out, LDS_NAME_BYTES, "%.*s", (int)strcspn(path, ","), path);
  return 1;
}

/* Fills in what tells it from others. */
static int describe(const lds_easy_device *d, const lds_model *model, uint32_t number, lds_beside *out, lds_easy_error *error) {
  const char *name = lds_model_device(model, number), *bus = bus_of(model, number);
  const int equal = memcmp(lds_model_fingerprint(model, number), lds_model_fingerprint(model, 0), LDS_FINGERPRINT_BYTES) == 0;
  memset(out, 0, sizeof *out);
  if (!is_plain(name)) return lds_easy_fail(error, LDS_ERR_FORMAT, "device '%.60s' of the artifact has a name that no device has", name);
  strcpy(out->place, name);
  if (d->name.kind == LDS_KIND_SIM || d->name.kind == LDS_KIND_NULL) {
    memcpy(out->fingerprint, lds_model_fingerprint(model, number), sizeof out->fingerprint);
  }
  if (d->name.timing[0] != 0 && !equal) {
    return lds_easy_fail(error, LDS_ERR_CONFIG, "device '%s': timing=FILE is that of one kind of device, and '%.60s' is another one",
                         d->text, name);
  }
  out->shares_bus = d->name.timing[0] != 0 && bus != NULL;
  if (out->shares_bus && !is_of_first(model, bus)) {
    return lds_easy_fail(error, LDS_ERR_CONFIG, "device '%s': '%.60s' of the artifact shares the bus of another device than the first",
                         d->text, name);
  }
  if (d->name.kind == LDS_KIND_SIMD) (void)snprintf(out->place, sizeof out->place, "%s.%s", d->name.path, name);
  if (d->name.kind == LDS_KIND_UIO && !uio_of(d, model, name, out->place)) {
    return lds_easy_fail(error, LDS_ERR_ACCELERATOR,
                         "device '%s': the artifact has programs for '%.60s', too: name the UIO devices of NAME.1, NAME.2 and so on, "
                         "further=/dev/uio1,/dev/uio2",
                         d->text, name);
  }
  if (d->name.kind == LDS_KIND_DEVMEM) {
    return lds_easy_fail(error, LDS_ERR_ACCELERATOR,
                         "device '%s' is one device, and the artifact has programs for '%.60s', too: use uio:PATH", d->text, name);
  }
  return LDS_OK;
}

/* --- which are open ---------------------------------------------------------------------------------------------------------- */
static int is_same(const lds_beside *a, const lds_beside *b) {
  return strcmp(a->place, b->place) == 0 && a->shares_bus == b->shares_bus &&
         memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint) == 0;
}

/* Closes one that nobody uses, where so many are open that there is no place for another. 0: all are in use. */
static int make_room(lds_easy_device *d) {
  lds_beside **unused = NULL, **at;
  lds_beside *gone;
  uint32_t count = 0;
  for (at = &d->beside; *at != NULL; at = &(*at)->next) {
    ++count;
    if ((*at)->users == 0) unused = at; /* the oldest, as new ones stand first */
  }
  if (count < LDS_BESIDE_MOST) return 1;
  if (unused == NULL) return 0;
  gone = *unused;
  *unused = gone->next;
  lds_driver_close(&gone->driver);
  free(gone);
  return 1;
}

static int open_one(lds_easy_device *d, const lds_model *model, uint32_t number, lds_beside **out, lds_easy_error *error) {
  lds_beside wanted, *found;
  int status = describe(d, model, number, &wanted, error);
  if (status != LDS_OK) return status;
  for (found = d->beside; found != NULL && !is_same(found, &wanted);) found = found->next;
  *out = found;
  if (found != NULL) return LDS_OK;
  if (!make_room(d)) {
    return lds_easy_fail(error, LDS_ERR_MEMORY, "device '%s' has %d further devices in use, and no more", d->text, LDS_BESIDE_MOST);
  }
  found = malloc(sizeof *found);
  if (found == NULL) return lds_easy_fail(error, LDS_ERR_MEMORY, "device '%s': out of memory", d->text);
  *found = wanted;
  status = lds_driver_open(d, model, number, found->place, &found->driver, error);
  if (status == LDS_OK && found->shares_bus &&
      lds_simdev_share_bus(lds_hal_sim_device(found->driver.sim), lds_hal_sim_device(d->own.sim)) != LDS_SIM_OK) {
    lds_driver_close(&found->driver);
    status = lds_easy_fail(error, LDS_ERR_MEMORY, "device '%s': out of memory", d->text);
  }
  if (status != LDS_OK) {
    free(found);
    return status;
  }
  found->next = d->beside;
  d->beside = found;
  *out = found;
  return LDS_OK;
}

int lds_beside_open(lds_easy_device *d, const lds_model *model, lds_accelerator **out, uint32_t *count, lds_easy_error *error) {
  lds_accelerator *all = NULL;
  const uint32_t devices = lds_model_device_count(model);
  uint32_t k;
  int status = LDS_OK;
  *out = NULL;
  *count = 0;
  for (k = 1; k < devices && status == LDS_OK; ++k) {
    lds_beside *one = NULL;
    if (!is_vta(model, k) || !lds_model_uses(model, k)) continue;
    if (all == NULL) all = calloc(LDS_BESIDE_MOST, sizeof *all);
    if (all == NULL) {
      status = lds_easy_fail(error, LDS_ERR_MEMORY, "device '%s': out of memory", d->text);
    } else if (*count == LDS_BESIDE_MOST) {
      status = lds_easy_fail(error, LDS_ERR_ACCELERATOR, "the artifact has programs for more than %d further devices: divide it",
                             LDS_BESIDE_MOST);
    } else {
      status = open_one(d, model, k, &one, error);
    }
    if (status != LDS_OK) break;
    ++one->users;
    all[*count].name = lds_model_device(model, k); /* the network has it */
    all[(*count)++].device = &one->driver.device;
  }
  if (status == LDS_OK) {
    *out = all;
  } else {
    lds_beside_close(d, all, *count);
  }
  return status;
}

void lds_beside_close(lds_easy_device *d, lds_accelerator *accelerators, uint32_t count) {
  lds_beside *b;
  uint32_t k;
  for (k = 0; k < count; ++k) {
    for (b = d->beside; b != NULL; b = b->next) b->users -= &b->driver.device == accelerators[k].device;
  }
  free(accelerators);
}

void lds_beside_close_all(lds_easy_device *d) {
  while (d->beside != NULL) {
    lds_beside *next = d->beside->next;
    lds_driver_close(&d->beside->driver);
    free(d->beside);
    d->beside = next;
  }
}
