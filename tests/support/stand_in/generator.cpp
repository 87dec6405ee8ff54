#include "tests/support/stand_in/generator.h"

#include <array>
#include <memory>

#include <ATen/CPUGeneratorImpl.h>

#include "tests/support/stand_in/card_allocator.h"

namespace stand_in {
namespace {

/// A GPU's generator, which draws the same numbers as a CPU's with the same seed.
class CardGenerator final : public c10::GeneratorImpl {
 public:
  explicit CardGenerator(c10::DeviceIndex device)
      : GeneratorImpl({c10::kCUDA, device}, c10::DispatchKeySet(c10::DispatchKey::CUDA)) {}

  void set_current_seed(std::uint64_t seed) override { host.set_current_seed(seed); }
  void set_offset(std::uint64_t offset) override { host.set_offset(offset); }
  std::uint64_t get_offset() const override { return host.get_offset(); }
  std::uint64_t current_seed() const override { return host.current_seed(); }
  std::uint64_t seed() override { return host.seed(); }
  void set_state(const c10::TensorImpl& state) override { impl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return impl()->get_state(); }

  c10::GeneratorImpl* impl() const { return host.unsafeGetGeneratorImpl(); }
  at::Generator host = at::detail::createCPUGenerator();

 private:
  CardGenerator* clone_impl() const override {
    auto* const copy = new CardGenerator(device().index());
    copy->host = host.clone();
    return copy;
  }
};

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex device) {
  static const auto* const all = new std::array<at::Generator, kCards>{
      at::make_generator<CardGenerator>(0), at::make_generator<CardGenerator>(1)};
  return all->at(static_cast<std::size_t>(device < 0 ? 0 : device));
}

at::Generator new_generator(c10::DeviceIndex device) {
  return at::make_generator<CardGenerator>(device < 0 ? 0 : device);
}

at::Generator host_generator(const at::Generator& of_gpu) {
  return dynamic_cast<CardGenerator*>(of_gpu.unsafeGetGeneratorImpl())->host;
}

}  // namespace stand_in
