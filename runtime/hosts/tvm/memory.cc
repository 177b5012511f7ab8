/* TVM's tensors in the accelerator's memory: all storage of its virtual machines, device ext_dev, single tensors.
 *
 * In:   headers and libraries of TVM's wheels, unchanged; the device of a library that hosts/tvm.py made (loadstone_share_memory).
 * Out:  DeviceAllocator., device_api.ext_dev and loadstone.memory.*, global functions of the process that loads it.
 * Next: python/loadstone/hosts/tvm_memory.py compiles it; memory.c allocates the memory; docs/tvm-runtime.md.
 *
 * TVM looks up an allocator by "DeviceAllocator." and the name of the kind of device, which is empty for all but OpenCL and Vulkan, and
 * keeps the first allocator of a device: this library must be loaded before the first virtual machine.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/memory/memory_manager.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <set>

#include "lds_easy.h"

namespace {
namespace ffi = tvm::ffi;
using tvm::runtime::Allocator;
using tvm::runtime::AllocatorType;

constexpr size_t kAlign = 64;  // TVM's code loads aligned vectors, and R15 of FORMAT.md requires it

std::atomic<lds_easy_device *> shared{nullptr};  // kept until the process ends: tensors are freed at its exit
std::atomic<int64_t> copied_bytes{0};            // copied by TVM to, from and within ext_dev
std::atomic<size_t> used_bytes{0};               // storage of virtual machines in the device's memory

// The device's memory; ordinary memory as long as no library has shared its device.
void *Take(size_t size_bytes) {
  lds_easy_device *device = shared;
  lds_easy_error error;
  void *data = nullptr;
  if (device == nullptr) {
    data = std::aligned_alloc(kAlign, (size_bytes / kAlign + 1) * kAlign);
    if (data == nullptr) TVM_FFI_THROW(MemoryError) << "cannot allocate " << size_bytes << " bytes";
  } else if (lds_easy_memory_alloc(device, size_bytes, &data, &error) != LDS_OK) {
    TVM_FFI_THROW(MemoryError) << error.text;
  }
  return data;
}

bool IsDevices(const void *data) { return lds_easy_memory_has(shared, data, 1, nullptr) != 0; }

void Give(void *data) {
  if (IsDevices(data)) {
    lds_easy_memory_free(shared, data);
  } else {
    std::free(data);
  }
}

// The allocator from which a virtual machine takes its storage, for every device.
class DeviceMemory final : public Allocator {
 public:
  explicit DeviceMemory(AllocatorType type) : Allocator(type) {}
  tvm::runtime::memory::Buffer Alloc(tvm::Device device, size_t size_bytes, size_t, DLDataType) final {
    tvm::runtime::memory::Buffer buffer;
    buffer.data = Take(size_bytes);
    buffer.size = size_bytes;
    buffer.device = device;
    buffer.alloc_type = type();
    if (IsDevices(buffer.data)) used_bytes += size_bytes;
    return buffer;
  }
  using Allocator::Alloc;
  void Free(const tvm::runtime::memory::Buffer &buffer) final {
    if (IsDevices(buffer.data)) used_bytes -= buffer.size;
    Give(buffer.data);
  }
  size_t UsedMemory() const final { return used_bytes; }
};

// The allocators that were returned to TVM, which requests them one at a time.
std::set<const Allocator *> &Made() {
  static auto *made = new std::set<const Allocator *>();
  return *made;
}

void *MakeAllocator(DLDevice, int type) {
  Allocator *made = new DeviceMemory(static_cast<AllocatorType>(type));
  Made().insert(made);
  return made;
}

// tvm.ext_dev(0): memory that the CPU can also read.
class ExtDev final : public tvm::runtime::DeviceAPI {
 public:
  void SetDevice(tvm::Device) final {}
  void GetAttr(tvm::Device, tvm::runtime::DeviceAttrKind kind, ffi::Any *result) final {
    if (kind == tvm::runtime::kExist) *result = 1;
  }
  void *AllocDataSpace(tvm::Device, size_t size_bytes, size_t, DLDataType) final { return Take(size_bytes); }
  using DeviceAPI::AllocDataSpace;
  void FreeDataSpace(tvm::Device, void *data) final { Give(data); }
  void StreamSync(tvm::Device, TVMStreamHandle) final {}
  bool SupportsDevicePointerArithmeticsOnHost() final { return true; }

 protected:
  void CopyDataFromTo(const void *from, size_t from_offset, void *to, size_t to_offset, size_t size_bytes, tvm::Device, tvm::Device,
                      DLDataType, TVMStreamHandle) final {
    copied_bytes += static_cast<int64_t>(size_bytes);
    std::memcpy(static_cast<char *>(to) + to_offset, static_cast<const char *>(from) + from_offset, size_bytes);
  }
};

void *MakeExtDev() {
  static auto *api = new ExtDev();
  return static_cast<tvm::runtime::DeviceAPI *>(api);
}

// A CPU tensor in the device's memory.
ffi::Tensor Empty(ffi::Shape shape, DLDataType dtype) {
  struct Memory {
    void AllocData(DLTensor *t) { t->data = Take(ffi::GetDataSize(*t)); }
    void FreeData(DLTensor *t) { Give(t->data); }
  };
  return ffi::Tensor::FromNDAlloc(Memory(), shape, dtype, DLDevice{kDLCPU, 0});
}

int64_t Bus(ffi::TensorView tensor) {
  uint64_t bus = 0;
  const size_t size_bytes = ffi::GetDataSize(static_cast<size_t>(tensor.numel()), tensor.dtype());
  return lds_easy_memory_has(shared, tensor.data_ptr(), size_bytes, &bus) != 0 ? static_cast<int64_t>(bus) : 0;
}

// lds_tvm.h passes the device of its library, or takes the one that is registered here.
int64_t Shared() { return static_cast<int64_t>(reinterpret_cast<intptr_t>(shared.load())); }

void Attach(int64_t handle) {
  auto *device = reinterpret_cast<lds_easy_device *>(static_cast<intptr_t>(handle));
  for (AllocatorType type : {AllocatorType::kNaive, AllocatorType::kPooled}) {
    if (Made().count(tvm::runtime::MemoryManager::GetOrCreateAllocator(DLDevice{kDLCPU, 0}, type)) == 0) {
      TVM_FFI_THROW(RuntimeError) << "TVM has an allocator of its own already: load libloadstone_tvm.so before the first virtual machine";
    }
  }
  lds_easy_device *none = nullptr;
  if (shared.compare_exchange_strong(none, device)) lds_easy_device_keep(device);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  refl::GlobalDef()
      .def("DeviceAllocator.", MakeAllocator)
      .def("device_api.ext_dev", MakeExtDev)
      .def("loadstone.memory.attach", Attach)
      .def("loadstone.memory.device", Shared)
      .def("loadstone.memory.empty", Empty)
      .def("loadstone.memory.bus", Bus)
      .def("loadstone.memory.copied_bytes", []() { return copied_bytes.load(); })
      .def("loadstone.memory.used_bytes", []() { return static_cast<int64_t>(used_bytes.load()); });
}
}  // namespace
