/* Texts for ONNX Runtime, and from it.
 *
 * In:   an error message; a node with attributes.
 * Out:  a status with the message; an attribute, which the caller frees.
 * Next: provider.c and kernel.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "ort_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lds_easy.h"

ort_status *lds_ort_fail(const ort_function *api, int code, const char *format, ...) {
  char text[LDS_EASY_TEXT_BYTES + 64] = "loadstone: ";
  const size_t begin = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text + begin, sizeof text - begin, format, arguments);
  va_end(arguments);
  return ORT(api, ORT_CREATE_STATUS, ort_create_status)(code, text);
}

ort_status *lds_ort_text(const ort_function *api, const ort_node *node, const char *name, char **out, size_t *size) {
  const ort_attribute *attribute = NULL;
  ort_status *status = ORT(api, ORT_NODE_GET_ATTRIBUTE, ort_node_get_attribute)(node, name, &attribute);
  *out = NULL;
  *size = 0;
  if (status != NULL) return status;
  if (attribute == NULL) return lds_ort_fail(api, ORT_EP_FAIL, "an EPContext node has no attribute %s", name);
  /* Called without a buffer, it returns an error and the size that it needs. */
  status = ORT(api, ORT_READ_ATTRIBUTE, ort_read_attribute)(attribute, ORT_ATTRIBUTE_STRING, NULL, 0, size);
  if (status != NULL) ORT(api, ORT_RELEASE_STATUS, ort_release_status)(status);
  *out = calloc(*size + 1u, 1);
  if (*out == NULL) return lds_ort_fail(api, ORT_EP_FAIL, "out of memory");
  return *size == 0 ? NULL : ORT(api, ORT_READ_ATTRIBUTE, ort_read_attribute)(attribute, ORT_ATTRIBUTE_STRING, *out, *size, size);
}
