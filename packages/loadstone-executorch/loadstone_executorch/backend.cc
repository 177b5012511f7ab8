// ExecuTorch's back end "LoadstoneBackend": the delegated parts of a .pte file are artifacts.
//
// In:   a program made with partitioner.py; ExecuTorch 1.x (headers and libexecutorch of its wheel, or of a build of one's
// own). Out:  execute(): ExecuTorch's tensors through the device, without a copy of our own where it can be. Next: lds_easy.h runs the
// artifacts. Loading this library registers the back end; library.py compiles it.
//
// Which device runs a part: that of the environment's LOADSTONE_DEVICE, else that which the partitioner was given, if that is the
// simulator: the .pte file may be from anybody, and does not choose an address, a socket or a file of the machine. All parts of a
// process with the same device name share one device.
// SPDX-License-Identifier: Apache-2.0
#include <executorch/runtime/backend/interface.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "lds_easy.h"

namespace {

namespace et = executorch::runtime;

struct CloseDevice {
  void operator()(lds_easy_device *device) const { lds_easy_device_close(device); }
};
struct CloseNet {
  void operator()(lds_easy *net) const { lds_easy_close(net); }
};
using Device = std::shared_ptr<lds_easy_device>;

// A device stays open as long as a part uses it.
Device device_named(const std::string &name, lds_easy_error *error) {
  static std::mutex lock;
  static std::map<std::string, std::weak_ptr<lds_easy_device>> open;
  const std::lock_guard<std::mutex> held(lock);
  if (Device there = open[name].lock()) return there;
  lds_easy_device *made = nullptr;
  if (lds_easy_device_open(name.c_str(), &made, error) != LDS_OK) return nullptr;
  Device device(made, CloseDevice());
  open[name] = device;
  return device;
}

// One delegated part. The artifact's bytes stay: a network reads them as long as it is open.
struct Part {
  std::vector<unsigned char> bytes;
  Device device;
  std::unique_ptr<lds_easy, CloseNet> net;
};

// False: *name is what the file asks for, and the process has not allowed.
bool choose_device(et::ArrayRef<et::CompileSpec> specs, std::string *name) {
  *name = "sim";
  if (const char *chosen = std::getenv("LOADSTONE_DEVICE")) {
    *name = chosen;
    return true;
  }
  for (const et::CompileSpec &spec : specs)
    if (std::strcmp(spec.key, "device") == 0) name->assign(static_cast<const char *>(spec.value.buffer), spec.value.nbytes);
  return *name == "sim";
}

et::Error error_of(int status) {
  switch (status) {
    case LDS_OK:
      return et::Error::Ok;
    case LDS_ERR_ARGUMENT:
      return et::Error::InvalidArgument;
    case LDS_ERR_MEMORY:
      return et::Error::MemoryAllocationFailed;
    default:
      return et::Error::DelegateInvalidHandle;
  }
}

class LoadstoneBackend final : public et::BackendInterface {
 public:
  bool is_available() const override { return true; }

  et::Result<et::DelegateHandle *> init(et::BackendInitContext &, et::FreeableBuffer *blob,
                                        et::ArrayRef<et::CompileSpec> specs) const override {
    std::unique_ptr<Part> part(new (std::nothrow) Part);
    if (!part) return et::Error::MemoryAllocationFailed;
    const auto *bytes = static_cast<const unsigned char *>(blob->data());
    part->bytes.assign(bytes, bytes + blob->size());
    blob->Free();
    std::string name;
    if (!choose_device(specs, &name)) {
      ET_LOG(Error, "loadstone: the file asks for device '%.200s', and may choose sim alone: set LOADSTONE_DEVICE to that name to allow it",
             name.c_str());
      return et::Error::DelegateInvalidCompatibility;
    }
    lds_easy_error error;
    part->device = device_named(name, &error);
    lds_easy *net = nullptr;
    if (!part->device || lds_easy_open(part->device.get(), part->bytes.data(), part->bytes.size(), &net, &error) != LDS_OK) {
      ET_LOG(Error, "loadstone: %s", error.text);
      return et::Error::DelegateInvalidCompatibility;
    }
    part->net.reset(net);
    return part.release();
  }

  et::Error execute(et::BackendExecutionContext &, et::DelegateHandle *handle, et::Span<et::EValue *> args) const override {
    lds_easy *net = static_cast<Part *>(handle)->net.get();
    const uint32_t inputs = lds_easy_input_count(net), outputs = lds_easy_output_count(net);
    if (args.size() != inputs + outputs) return refused(net, "it has %u inputs and outputs, not %u", inputs + outputs, args.size());
    std::vector<const void *> from(inputs);
    std::vector<void *> to(outputs);
    uint32_t samples = 0;
    for (uint32_t n = 0; n < inputs + outputs; ++n) {
      if (!args[n]->isTensor()) return refused(net, "argument %u of %u is no tensor", n, args.size());
      const auto &tensor = args[n]->toTensor();
      const size_t bytes = n < inputs ? lds_easy_input_bytes(net, n) : lds_easy_output_bytes(net, n - inputs);
      const size_t fit = bytes == 0 ? 0 : tensor.nbytes() / bytes;
      if (fit == 0 || tensor.nbytes() % bytes != 0 || (n > 0 && fit != samples))
        return refused(net, "tensor %u has %zu bytes, which are not those of its samples", n, tensor.nbytes());
      samples = static_cast<uint32_t>(fit);
      if (n < inputs)
        from[n] = tensor.const_data_ptr();
      else
        to[n - inputs] = args[n]->toTensor().mutable_data_ptr();
    }
    lds_easy_error error;
    const int status = lds_easy_run(net, from.data(), to.data(), samples, &error);
    if (status != LDS_OK) ET_LOG(Error, "loadstone: %s", error.text);
    return error_of(status);
  }

  void destroy(et::DelegateHandle *handle) const override { delete static_cast<Part *>(handle); }

 private:
  template <typename... Values>
  static et::Error refused(const lds_easy *net, const char *what, Values... values) {
    char text[LDS_EASY_TEXT_BYTES];
    std::snprintf(text, sizeof text, what, values...);
    ET_LOG(Error, "loadstone: model '%s': %s", lds_easy_name(net), text);
    return et::Error::InvalidArgument;
  }
};

LoadstoneBackend backend;
[[maybe_unused]] const et::Error registered = et::register_backend({"LoadstoneBackend", &backend});

}  // namespace
