// The device guard of the type CUDA.

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "tests/support/stand_in/card_allocator.h"
#include "tests/support/stand_in/graphs.h"
#include "tests/support/stand_in/streams.h"

namespace stand_in {
namespace {

thread_local c10::DeviceIndex current_card = 0;

struct CardGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {c10::kCUDA, current_card}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < kCards, "there is no GPU ", device.index());
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) current_card = device.index();
  }
  c10::Stream getStream(c10::Device device) const override { return streams().current(of(device)); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, of(device));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return streams().new_stream(of(device));
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return streams().new_stream(of(device));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return streams().exchange(stream);
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    Streams::destroy(event);
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex,
              c10::EventFlag) const override {
    streams().record(event, stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    streams().wait(event, stream);
  }
  bool queryEvent(void* event) const override { return streams().has_finished(event); }
  void synchronizeEvent(void* event) const override {
    refuse_while_recording("cudaEventSynchronize");
    streams().synchronize(event);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kCards; }
  bool queryStream(const c10::Stream& stream) const override {
    return streams().has_finished(stream);
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    refuse_while_recording("cudaStreamSynchronize");
    streams().synchronize(stream);
  }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    refuse_while_recording("cudaDeviceSynchronize");
    streams().synchronize(c10::Device(c10::kCUDA, index < 0 ? current_card : index));
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    card_allocator().recordStream(data, stream);
  }

 private:
  c10::Device of(c10::Device device) const { return device.has_index() ? device : getDevice(); }
};

C10_REGISTER_GUARD_IMPL(CUDA, CardGuard)

}  // namespace
}  // namespace stand_in
