/* Artifacts as functions of TVM's runtime; the C text of python/loadstone/hosts/tvm.py includes this file.
 *
 * In:   tensors through tvm_ffi's stable C ABI (tvm/ffi/c_api.h, of the wheel), inputs, then outputs, as call_dps_packed passes them.
 * Out:  the outputs filled; errors as TVM's, one line each.
 * Next: lds_easy.h runs the artifact. Compiled as C or C++ into the library that export_library makes; needs libtvm_ffi and libloadstone.
 *
 * The device is the argument of `loadstone_device`, else the environment's LOADSTONE_DEVICE, else LDS_TVM_DEVICE, which was given when the
 * module was compiled. All functions of a library share it. It stays open until the library is unloaded.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_TVM_H
#define LDS_TVM_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

#include "lds_easy.h"

#ifdef __cplusplus
#define LDS_TVM_EXPORT extern "C" TVM_FFI_DLL_EXPORT
#else
#define LDS_TVM_EXPORT TVM_FFI_DLL_EXPORT
#endif

enum { LDS_TVM_TENSORS = 256, LDS_TVM_NAME_BYTES = 256 };

typedef struct lds_tvm_function {
  const char *symbol;
  const unsigned char *bytes; /* the artifact */
  size_t size_bytes;
  lds_easy *net; /* NULL: not called yet */
} lds_tvm_function;

static pthread_mutex_t lds_tvm_lock = PTHREAD_MUTEX_INITIALIZER;
static lds_easy_device *lds_tvm_device;
static char lds_tvm_device_name[LDS_TVM_NAME_BYTES];

static int lds_tvm_fail(const char *kind, const char *symbol, const char *text) {
  char line[LDS_EASY_TEXT_BYTES + LDS_TVM_NAME_BYTES];
  (void)snprintf(line, sizeof line, "%.200s: %s", symbol, text);
  TVMFFIErrorSetRaisedFromCStr(kind, line);
  return -1;
}

/* --- the device -------------------------------------------------------------------------------------------------------------- */
static const char *lds_tvm_chosen_device(void) {
  const char *environment = getenv("LOADSTONE_DEVICE");
  if (lds_tvm_device_name[0] != 0) return lds_tvm_device_name;
  return environment != NULL && environment[0] != 0 ? environment : LDS_TVM_DEVICE;
}

/* The network of a function, opened by its first call. */
static lds_easy *lds_tvm_net(lds_tvm_function *f, lds_easy_error *error) {
  lds_easy *net;
  (void)pthread_mutex_lock(&lds_tvm_lock);
  if (f->net == NULL && (lds_tvm_device != NULL || lds_easy_device_open(lds_tvm_chosen_device(), &lds_tvm_device, error) == LDS_OK)) {
    (void)lds_easy_open(lds_tvm_device, f->bytes, f->size_bytes, &f->net, error);
  }
  net = f->net;
  (void)pthread_mutex_unlock(&lds_tvm_lock);
  return net;
}

/* TVM has three kinds of texts: a pointer, one inside the value, an object. */
static int lds_tvm_text(const TVMFFIAny *value, char *out, size_t room) {
  const char *data = NULL;
  size_t size = 0;
  if (value->type_index == kTVMFFIRawStr) {
    data = value->v_c_str;
    size = strlen(data);
  } else if (value->type_index == kTVMFFISmallStr) {
    data = value->v_bytes;
    size = value->small_str_len;
  } else if (value->type_index == kTVMFFIStr) {
    const TVMFFIByteArray *array = (const TVMFFIByteArray *)(const void *)((const char *)value->v_obj + sizeof(TVMFFIObject));
    data = array->data;
    size = array->size;
  }
  if (data == NULL || size >= room) return 0;
  memcpy(out, data, size);
  out[size] = 0;
  return 1;
}

/* loadstone_device(name): before the first call of a function. */
static int lds_tvm_set_device(const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
  char name[LDS_TVM_NAME_BYTES];
  lds_easy_error error;
  lds_easy_device *probe = NULL;
  int used;
  if (count != 1 || !lds_tvm_text(args, name, sizeof name)) {
    return lds_tvm_fail("TypeError", "loadstone_device", "one text of at most 255 characters is expected, the name of a device");
  }
  if (lds_easy_device_open(name, &probe, &error) != LDS_OK) return lds_tvm_fail("ValueError", "loadstone_device", error.text);
  lds_easy_device_close(probe); /* its name is valid; it is opened at the first call */
  (void)pthread_mutex_lock(&lds_tvm_lock);
  used = lds_tvm_device != NULL;
  if (!used) strcpy(lds_tvm_device_name, name);
  (void)pthread_mutex_unlock(&lds_tvm_lock);
  if (used) {
    return lds_tvm_fail("RuntimeError", "loadstone_device", "this library's device is in use: name it before the first call of a function");
  }
  memset(result, 0, sizeof *result); /* None */
  return 0;
}

/* --- the device's memory as tensors ------------------------------------------------------------------------------------------ */
static const DLDataType lds_tvm_types[] = {
    {kDLInt, 8, 1},  {kDLUInt, 8, 1},    {kDLInt, 16, 1},  {kDLInt, 32, 1},  {kDLInt, 64, 1},  {kDLFloat, 32, 1}, {kDLFloat, 16, 1},
    {kDLBool, 8, 1}, {kDLBfloat, 16, 1}, {kDLUInt, 16, 1}, {kDLUInt, 32, 1}, {kDLUInt, 64, 1}, {kDLFloat, 64, 1},
};
typedef char lds_tvm_every_type[sizeof lds_tvm_types / sizeof lds_tvm_types[0] == LDS_ELEMENT_TYPES ? 1 : -1];

typedef struct lds_tvm_view {
  DLManagedTensor managed; /* first: DLPack's pointer is ours */
  int64_t dims[LDS_RANK];
} lds_tvm_view;

static void lds_tvm_free_view(DLManagedTensor *managed) { free(managed); }

/* The function named by the first argument. */
static lds_tvm_function *lds_tvm_named(lds_tvm_function *const *functions, size_t count, const TVMFFIAny *args) {
  char name[LDS_TVM_NAME_BYTES];
  size_t k;
  if (!lds_tvm_text(args, name, sizeof name)) return NULL;
  for (k = 0; k < count; ++k) {
    if (strcmp(functions[k]->symbol, name) == 0) return functions[k];
  }
  return NULL;
}

/* loadstone_memory(function, index): the device's memory of an input, or, with indices after these, of an output, as a tensor of one run.
 * A function that is called with these tensors copies nothing. They are valid while the library is loaded. */
static int lds_tvm_memory(lds_tvm_function *const *functions, size_t functions_count, const TVMFFIAny *args, int32_t count,
                          TVMFFIAny *result) {
  lds_tvm_function *f = count == 2 && args[1].type_index == kTVMFFIInt ? lds_tvm_named(functions, functions_count, args) : NULL;
  lds_easy_error error;
  lds_easy *net;
  lds_tvm_view *view;
  lds_tensor t;
  TVMFFIObjectHandle made = NULL;
  uint32_t inputs, index;
  int status, d;
  if (f == NULL) return lds_tvm_fail("TypeError", "loadstone_memory", "the name of a function and an index are expected");
  net = lds_tvm_net(f, &error);
  if (net == NULL) return lds_tvm_fail("RuntimeError", f->symbol, error.text);
  inputs = lds_easy_input_count(net);
  index = args[1].v_int64 >= 0 && args[1].v_int64 < UINT32_MAX ? (uint32_t)args[1].v_int64 : UINT32_MAX;
  status = index < inputs ? lds_easy_input(net, index, &t) : lds_easy_output(net, index - inputs, &t);
  if (status != LDS_OK) return lds_tvm_fail("ValueError", f->symbol, "the index exceeds its inputs and outputs");
  view = (lds_tvm_view *)calloc(1, sizeof *view);
  if (view == NULL) return lds_tvm_fail("RuntimeError", f->symbol, "out of memory");
  for (d = 0; d < t.rank; ++d) view->dims[d] = (int64_t)t.dims[d];
  view->managed.dl_tensor.data = index < inputs ? lds_easy_input_data(net, index) : lds_easy_output_data(net, index - inputs);
  view->managed.dl_tensor.device.device_type = kDLCPU;
  view->managed.dl_tensor.ndim = t.rank;
  view->managed.dl_tensor.dtype = lds_tvm_types[t.dtype];
  view->managed.dl_tensor.shape = view->dims;
  view->managed.deleter = lds_tvm_free_view;
  if (TVMFFITensorFromDLPack(&view->managed, 64, 1, &made) != 0) {
    free(view);
    return -1;
  }
  memset(result, 0, sizeof *result);
  result->type_index = kTVMFFITensor;
  result->v_obj = (TVMFFIObject *)made;
  return 0;
}

/* --- memory that TVM's tensors share with the device ------------------------------------------------------------------------- */
/* A global function with one argument, or none, and an integer or nothing as its result. */
static int lds_tvm_global(const char *name, const TVMFFIAny *arg, TVMFFIAny *result) {
  TVMFFIObjectHandle function = NULL;
  TVMFFIByteArray key;
  int status;
  key.data = name;
  key.size = strlen(name);
  if (TVMFFIFunctionGetGlobal(&key, &function) != 0) return -1;
  if (function == NULL) {
    return lds_tvm_fail("RuntimeError", "loadstone_share_memory", "load libloadstone_tvm.so first (loadstone.hosts.tvm_memory)");
  }
  memset(result, 0, sizeof *result);
  status = TVMFFIFunctionCall(function, (TVMFFIAny *)(uintptr_t)arg, arg != NULL ? 1 : 0, result);
  (void)TVMFFIObjectDecRef(function);
  return status;
}

/* Uses the device that other libraries of the process have shared, if there is one, and this has none. */
static int lds_tvm_adopt(lds_easy_device *shared) {
  int is_ours;
  (void)pthread_mutex_lock(&lds_tvm_lock);
  if (shared != NULL && lds_tvm_device == NULL) {
    lds_easy_device_keep(shared);
    lds_tvm_device = shared;
  }
  is_ours = shared == NULL || lds_tvm_device == shared;
  (void)pthread_mutex_unlock(&lds_tvm_lock);
  return is_ours;
}

/* loadstone_share_memory(): from now on TVM's tensors are in the memory of this library's device, and its functions copy none of them.
 * Needs memory.cc in the process. The device is that of the first library that shares; others use it if they have not run anything yet. */
static int lds_tvm_share(lds_tvm_function *const *functions, size_t functions_count, TVMFFIAny *result) {
  lds_easy_error error;
  TVMFFIAny device;
  size_t k;
  if (lds_tvm_global("loadstone.memory.device", NULL, result) != 0) return -1;
  if (!lds_tvm_adopt((lds_easy_device *)(intptr_t)result->v_int64)) {
    return lds_tvm_fail("RuntimeError", "loadstone_share_memory",
                        "another library shares its device already: call it before the first call of a function of this one");
  }
  for (k = 0; k < functions_count; ++k) {
    if (lds_tvm_net(functions[k], &error) == NULL) return lds_tvm_fail("RuntimeError", functions[k]->symbol, error.text);
  }
  memset(&device, 0, sizeof device);
  device.type_index = kTVMFFIInt;
  device.v_int64 = (int64_t)(intptr_t)lds_tvm_device;
  return lds_tvm_global("loadstone.memory.attach", &device, result);
}

/* loadstone_copied_bytes(function): the bytes copied between tensors and the device's memory so far. */
static int lds_tvm_copied(lds_tvm_function *const *functions, size_t functions_count, const TVMFFIAny *args, int32_t count,
                          TVMFFIAny *result) {
  const lds_tvm_function *f = count == 1 ? lds_tvm_named(functions, functions_count, args) : NULL;
  if (f == NULL) return lds_tvm_fail("TypeError", "loadstone_copied_bytes", "the name of a function is expected");
  memset(result, 0, sizeof *result);
  result->type_index = kTVMFFIInt;
  result->v_int64 = f->net != NULL ? (int64_t)lds_easy_copied_bytes(f->net) : 0;
  return 0;
}

/* --- calls ------------------------------------------------------------------------------------------------------------------- */
static const DLTensor *lds_tvm_tensor(const TVMFFIAny *value) {
  if (value->type_index == kTVMFFIDLTensorPtr) return (const DLTensor *)value->v_ptr;
  if (value->type_index == kTVMFFITensor) return (const DLTensor *)(const void *)((const char *)value->v_obj + sizeof(TVMFFIObject));
  return NULL;
}

static int lds_tvm_same_type(const DLTensor *t, uint8_t dtype) {
  return t->dtype.code == lds_tvm_types[dtype].code && t->dtype.bits == lds_tvm_types[dtype].bits && t->dtype.lanes == 1;
}

/* The number of samples for which a contiguous tensor has the shape of the artifact's tensor; 0 when there is none. */
static uint32_t lds_tvm_samples(const DLTensor *t, const lds_tensor *wanted, uint32_t batch) {
  int64_t stride = 1;
  const int64_t rows = wanted->rank > 0 ? (int64_t)(wanted->dims[0] / batch) : 1;
  int d;
  if (t->ndim != wanted->rank || t->ndim < 1 || t->shape[0] < 1 || t->shape[0] % rows != 0) return 0;
  for (d = t->ndim - 1; d >= 0; --d) {
    if (d > 0 && t->shape[d] != (int64_t)wanted->dims[d]) return 0;
    if (t->strides != NULL && t->shape[d] != 1 && t->strides[d] != stride) return 0;
    stride *= t->shape[d];
  }
  return t->shape[0] / rows <= UINT32_MAX ? (uint32_t)(t->shape[0] / rows) : 0;
}

/* The number of samples of a tensor of a call; 0 after raising the error of a tensor that does not fit. */
static uint32_t lds_tvm_checked(const lds_tvm_function *f, const DLTensor *t, const lds_tensor *wanted, uint32_t index, uint32_t batch) {
  char text[LDS_TVM_NAME_BYTES];
  uint32_t samples = 0;
  const char *kind = "ValueError";
  if (t == NULL) {
    (void)snprintf(text, sizeof text, "argument %lu is no tensor", (unsigned long)index);
    kind = "TypeError";
  } else if (t->device.device_type != kDLCPU && t->device.device_type != kDLExtDev) {
    (void)snprintf(text, sizeof text, "argument %lu ('%.100s') is not in memory that the CPU can read", (unsigned long)index, wanted->name);
  } else if (!lds_tvm_same_type(t, wanted->dtype)) {
    (void)snprintf(text, sizeof text, "argument %lu ('%.100s') has another type than the artifact's tensor", (unsigned long)index,
                   wanted->name);
    kind = "TypeError";
  } else if ((samples = lds_tvm_samples(t, wanted, batch)) == 0) {
    (void)snprintf(text, sizeof text, "argument %lu ('%.100s') has another shape than the artifact's tensor, or is not contiguous",
                   (unsigned long)index, wanted->name);
  }
  if (samples == 0) (void)lds_tvm_fail(kind, f->symbol, text);
  return samples;
}

/* f(inputs..., outputs...) */
static int lds_tvm_call(lds_tvm_function *f, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
  void *data[LDS_TVM_TENSORS];
  lds_easy_error error;
  uint32_t inputs, outputs, k, samples = 0;
  lds_easy *net = lds_tvm_net(f, &error);
  if (net == NULL) return lds_tvm_fail("RuntimeError", f->symbol, error.text);
  inputs = lds_easy_input_count(net);
  outputs = lds_easy_output_count(net);
  if (count < 0 || (uint32_t)count != inputs + outputs || count > LDS_TVM_TENSORS) {
    char text[96];
    (void)snprintf(text, sizeof text, "%lu tensors are expected, not %ld: inputs, then outputs", (unsigned long)(inputs + outputs),
                   (long)count);
    return lds_tvm_fail("TypeError", f->symbol, text);
  }
  for (k = 0; k < inputs + outputs; ++k) {
    const DLTensor *t = lds_tvm_tensor(&args[k]);
    lds_tensor wanted;
    uint32_t found;
    (void)(k < inputs ? lds_easy_input(net, k, &wanted) : lds_easy_output(net, k - inputs, &wanted));
    found = lds_tvm_checked(f, t, &wanted, k, lds_easy_samples(net));
    if (found == 0) return -1;
    if (k > 0 && found != samples) return lds_tvm_fail("ValueError", f->symbol, "its tensors hold different numbers of samples");
    samples = found;
    data[k] = (char *)t->data + t->byte_offset;
  }
  if (lds_easy_run(net, (const void *const *)data, data + inputs, samples, &error) != LDS_OK) {
    return lds_tvm_fail("RuntimeError", f->symbol, error.text);
  }
  memset(result, 0, sizeof *result); /* None */
  return 0;
}

/* Runs when the library is unloaded. */
static void lds_tvm_close(lds_tvm_function *const *functions, size_t count) {
  size_t k;
  for (k = 0; k < count; ++k) lds_easy_close(functions[k]->net);
  lds_easy_device_close(lds_tvm_device);
}

#endif /* LDS_TVM_H */
