// Functions of LibTorch's CUDA part that its CPU part calls.

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "tests/support/stand_in/card_allocator.h"
#include "tests/support/stand_in/generator.h"
#include "tests/support/stand_in/pinned_memory.h"

namespace at {  // the registry finds the class by its name in this namespace

struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}

  void init() const override { stand_in::card_allocator().initialize(); }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  long versionCUDART() const override { return 13000; }
  std::string showConfig() const override { return "the stand-in of the tests"; }
  bool hasPrimaryContext(DeviceIndex) const override {
    return stand_in::card_allocator().initialized();
  }
  DeviceIndex deviceCount() const override { return stand_in::kCards; }
  int getNumGPUs() const override { return stand_in::kCards; }
  DeviceIndex current_device() const override { return getCurrentDevice(); }
  DeviceIndex getCurrentDevice() const override { return gpu().getDevice().index(); }
  void setCurrentDevice(DeviceIndex index) const override { gpu().setDevice({kCUDA, index}); }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    return gpu().exchangeDevice({kCUDA, index}).index();
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override {
    return exchangeDevice(index);
  }
  void deviceSynchronize(DeviceIndex index) const override { gpu().synchronizeDevice(index); }
  const Generator& getDefaultGenerator(DeviceIndex index) const override {
    return stand_in::default_generator(index < 0 ? getCurrentDevice() : index);
  }
  Generator getNewGenerator(DeviceIndex index) const override {
    return stand_in::new_generator(index < 0 ? getCurrentDevice() : index);
  }
  bool isPinnedPtr(const void* data) const override {
    return stand_in::pinned_memory().contains(data);
  }
  Allocator* getPinnedMemoryAllocator() const override { return &stand_in::pinned_memory(); }
  Allocator* getCUDADeviceAllocator() const override { return &stand_in::card_allocator(); }
  Device getDeviceFromPtr(void* data) const override {
    for (DeviceIndex i = 0; i < stand_in::kCards; ++i)
      if (stand_in::card_allocator().addresses(i).contains(data)) return {kCUDA, i};
    TORCH_CHECK(false, "this is not memory of a GPU");
  }

 private:
  static c10::impl::VirtualGuardImpl gpu() { return c10::impl::VirtualGuardImpl(kCUDA); }
};

REGISTER_CUDA_HOOKS(CUDAHooks)

}  // namespace at

namespace stand_in {
namespace {

[[maybe_unused]] const bool kIsRegistered = [] {
  card_allocator();
  at::setHostAllocator(at::kCUDA, &pinned_memory());
  return true;
}();

}  // namespace
}  // namespace stand_in
