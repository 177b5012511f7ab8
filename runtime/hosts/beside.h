/* Further devices of an open one, as networks of several devices need them. Private to runtime/hosts/.
 *
 * In:   an artifact that has programs for them; the device whose memory they share.
 * Out:  a session's accelerators.
 * Next: device.c opens their drivers; easy.c opens networks on them.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_BESIDE_H
#define LDS_BESIDE_H

#include "device.h"

enum { LDS_BESIDE_MOST = 16 }; /* at a time, of a device */

/* One further device: of all networks that name it. It stays open until its place is wanted for another one, or the device is closed. */
typedef struct lds_beside {
  lds_driver driver;
  uint32_t users;                             /* networks */
  char place[2 * LDS_NAME_BYTES];             /* its socket or UIO device; of a simulated one its name */
  uint8_t fingerprint[LDS_FINGERPRINT_BYTES]; /* of a simulated one */
  int shares_bus;                             /* of a simulated one that counts cycles: that of the first */
  struct lds_beside *next;
} lds_beside;

/* The further VTAs that a model has programs for, with the device's lock held and its own driver open. *out: *count accelerators, for
 * lds_session_config_accelerators, whose names are the model's; NULL where there are none. Accelerators of plug-ins are left out: the
 * session refuses their programs. */
int lds_beside_open(lds_easy_device *d, const lds_model *model, lds_accelerator **out, uint32_t *count, lds_easy_error *error);
/* Gives them back, and frees the array. */
void lds_beside_close(lds_easy_device *d, lds_accelerator *accelerators, uint32_t count);
/* Closes those that are still open, when no network is. */
void lds_beside_close_all(lds_easy_device *d);

#endif /* LDS_BESIDE_H */
