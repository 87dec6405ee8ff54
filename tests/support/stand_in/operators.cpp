// The operators of the device type CUDA: kernels of the CPU over the memory of a GPU.

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <ATen/EmptyTensor.h>
#include <ATen/core/List.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>
#include <torch/types.h>

#include "tests/support/stand_in/card_allocator.h"
#include "tests/support/stand_in/counts.h"
#include "tests/support/stand_in/generator.h"
#include "tests/support/stand_in/graphs.h"
#include "tests/support/stand_in/host_views.h"
#include "tests/support/stand_in/pinned_memory.h"
#include "tests/support/stand_in/streams.h"

namespace stand_in {
namespace {

using c10::IValue;

/// Operators with result sizes that depend on values, so the host waits for them.
constexpr std::array<std::string_view, 6> kWaits = {
    "aten::nonzero",    "aten::masked_select",      "aten::_unique2",
    "aten::unique_dim", "aten::unique_consecutive", "aten::bincount"};

/// Operators that also accept indices in host memory.
constexpr std::array<std::string_view, 4> kTakesHostIndices = {
    "aten::index", "aten::index_put_", "aten::_index_put_impl_", "aten::index_out"};

/// Prefixes of the names of operators that accept no number from the host, not even as a tensor
/// without dimensions.
constexpr std::array<std::string_view, 5> kTakesNoNumber = {
    "aten::_fused_", "aten::_amp_", "aten::index_select", "aten::gather", "aten::scatter"};

/// One call of an operator.
class Call {
 public:
  Call(const c10::OperatorHandle& operation, torch::jit::Stack& stack)
      : operation_(operation),
        stack_(stack),
        count_(operation.schema().arguments().size()),
        device_(device_of_arguments()),
        guard_(device_),
        views_(streams().launch(device_, operation.schema().name())) {}

  void run() {
    refuse_host_arguments();
    for (std::size_t i = 0; i < count_; ++i) {
      IValue& value = stack_[stack_.size() - count_ + i];
      value = on_host(std::move(value), is_written(i), operation_.schema().arguments()[i]);
    }
    torch::jit::Stack given;
    if (recording()) given.assign(stack_.end() - static_cast<std::ptrdiff_t>(count_), stack_.end());
    compute(operation_, stack_);
    const std::size_t count = operation_.schema().returns().size();
    bool waits = std::ranges::count(kWaits, operation_.schema().name()) > 0;
    const std::vector<at::Tensor> results = tensors(stack_, count);
    for (std::size_t i = 0; i < count; ++i) {
      IValue& value = stack_[stack_.size() - count + i];
      waits = waits || !(value.isTensor() || value.isTensorList() || value.isNone());
      value = on_device(std::move(value));
    }
    const auto again = [operation = operation_, given, count] {
      torch::jit::Stack stack = given;
      compute(operation, stack);
      return tensors(stack, count);
    };
    if (recording()) views_.record(again, results, tensors(stack_, count));
    views_.take_over_resized();
    if (!waits) return;
    refuse_while_recording(operation_.schema().name().c_str());
    streams().synchronize(streams().current(device_));
  }

 private:
  bool is_written(std::size_t argument) const {
    const auto* const alias = operation_.schema().arguments()[argument].alias_info();
    return alias && alias->isWrite();
  }

  static void compute(const c10::OperatorHandle& operation, torch::jit::Stack& stack) {
    const at::AutoDispatchBelowADInplaceOrView below;
    operation.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  }

  /// Returns the tensors of the last `count` values, and of lists among them.
  static std::vector<at::Tensor> tensors(const torch::jit::Stack& stack, std::size_t count) {
    std::vector<at::Tensor> all;
    for (std::size_t i = stack.size() - count; i < stack.size(); ++i) {
      if (stack[i].isTensor()) all.push_back(stack[i].toTensor());
      if (!stack[i].isTensorList()) continue;
      for (const at::Tensor& one : stack[i].toTensorVector()) all.push_back(one);
    }
    return all;
  }

  /// Throws if the kernel is recorded and needs host memory, which may change.
  void refuse_host_arguments() const {
    each_tensor([](const at::Tensor& tensor, bool) {
      if (tensor.defined() && tensor.is_cpu() && tensor.dim() > 0)
        refuse_while_recording("a kernel reads memory of the host");
    });
  }

  template <typename Visit>
  void each_tensor(const Visit& visit) const {
    for (std::size_t i = 0; i < count_; ++i) {
      const IValue& value = stack_[stack_.size() - count_ + i];
      if (value.isTensor()) visit(value.toTensor(), is_written(i));
      if (value.isTensorList())
        for (const at::Tensor& one : value.toTensorVector()) visit(one, is_written(i));
      if (!value.isList() || value.isTensorList()) continue;
      for (const IValue& one : value.toListRef())
        if (one.isTensor()) visit(one.toTensor(), is_written(i));
    }
  }

  /// Returns the GPU of the tensors. Throws as LibTorch does if they are not all on the same GPU.
  c10::Device device_of_arguments() const {
    std::optional<c10::Device> device;
    const auto refuse = [&](const at::Tensor& tensor) {
      TORCH_CHECK(false,
                  "Expected all tensors to be on the same device, but found at least two "
                  "devices, ",
                  *device, " and ", tensor.device(), "! (in ", operation_.schema().name(), ")");
    };
    each_tensor([&](const at::Tensor& tensor, bool) {
      if (!tensor.defined() || !tensor.is_cuda()) return;
      if (device && *device != tensor.device()) refuse(tensor);
      device = tensor.device();
    });
    const std::string_view name = operation_.schema().name();
    const bool takes_host = std::ranges::count(kTakesHostIndices, name) > 0;
    const bool takes_numbers =
        std::ranges::none_of(kTakesNoNumber, [&](auto begin) { return name.starts_with(begin); });
    each_tensor([&](const at::Tensor& tensor, bool writes) {
      if (!device || !tensor.defined() || tensor.is_cuda() || takes_host) return;
      if (tensor.dim() > 0 || writes || !takes_numbers) refuse(tensor);
    });
    for (std::size_t i = 0; i < count_; ++i) {
      const IValue& value = stack_[stack_.size() - count_ + i];
      if (value.isDevice() && value.toDevice().is_cuda() && value.toDevice().has_index())
        device = value.toDevice();
    }
    return device.value_or(c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice());
  }

  IValue on_host(IValue value, bool writes, const c10::Argument& argument) {
    if (value.isTensor()) return views_.of(value.toTensor(), writes);
    if (value.isTensorList()) {
      c10::List<at::Tensor> views;
      for (const at::Tensor& one : value.toTensorVector()) views.push_back(views_.of(one, writes));
      return views;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> views;
      for (const std::optional<at::Tensor>& one : value.toOptionalTensorVector())
        views.push_back(one ? std::optional(views_.of(*one, writes)) : one);
      return views;
    }
    if (value.isDevice()) return c10::Device(c10::kCPU);
    if (value.isGenerator()) return IValue(host_generator(value.toGenerator()));
    const auto wanted = argument.type()->cast<c10::OptionalType>();
    if (value.isNone() && wanted &&
        wanted->getElementType()->kind() == c10::TypeKind::GeneratorType)
      return IValue(host_generator(default_generator(device_.index())));
    return value;
  }

  IValue on_device(IValue value) {
    if (value.isTensor()) return views_.on_device(value.toTensor(), device_);
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> results;
    for (const at::Tensor& one : value.toTensorVector())
      results.push_back(views_.on_device(one, device_));
    return results;
  }

  const c10::OperatorHandle& operation_;
  torch::jit::Stack& stack_;
  const std::size_t count_;
  const c10::Device device_;
  const c10::DeviceGuard guard_;
  HostViews views_;
};

void run_on_host(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  Call(operation, *stack).run();
}

c10::Device device_or_current(std::optional<c10::Device> device) {
  return device && device->has_index() ? *device
                                       : c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice();
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(device_or_current(device));
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &card_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(device_or_current(device));
  return at::detail::empty_strided_generic(
      C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &card_allocator(),
      c10::DispatchKeySet(c10::DispatchKey::CUDA), c10::dtype_or_default(dtype));
}

const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef size,
                         std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(self.device());
  self.unsafeGetTensorImpl()->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(size));
  if (format) self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  const std::size_t bytes =
      static_cast<std::size_t>(self.storage_offset() + self.numel()) * self.itemsize();
  c10::Storage storage = self.storage();
  if (self.numel() == 0 || bytes <= storage.nbytes()) return self;
  c10::DataPtr memory = card_allocator().allocate(bytes);
  if (storage.nbytes() > 0)
    card_allocator().copy_data(memory.get(), storage.data(), storage.nbytes());
  storage.set_data_ptr_noswap(std::move(memory));
  storage.set_nbytes(bytes);
  return self;
}

/// Makes the current stream of `later` wait for that of `earlier`.
void order_streams(c10::Device earlier, c10::Device later) {
  void* event = nullptr;
  streams().record(&event, streams().current(earlier));
  streams().wait(event, streams().current(later));
  Streams::destroy(event);
}

at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (to.numel() == 0) return to;
  const bool is_between_cards = to.is_cuda() && from.is_cuda() && to.device() != from.device();
  if (is_between_cards) order_streams(to.device(), from.device());
  const c10::Device device = from.is_cuda() ? from.device() : to.device();  // it queues the copy
  const c10::DeviceGuard guard(device);
  const Work work = streams().launch(device, "aten::copy_");
  HostViews views(work);
  const at::AutoDispatchBelowADInplaceOrView below;
  PinnedMemory& pinned = pinned_memory();
  const auto is_pinned = [&](const at::Tensor& x) {
    return x.is_cpu() && pinned.contains(x.const_data_ptr());
  };
  const bool from_pinned = is_pinned(from);
  if (Recording* const own = recording()) {
    if (to.is_cpu() || from.is_cpu()) refuse_while_recording("a copy from or to the host");
    const auto copied = [host_to = views.of(to, /*writes=*/true),
                         host_from = views.of(from, false)] {
      at::Tensor(host_to).copy_(host_from);
    };
    copied();
    own->add(copied);
    return to;
  }
  if (to.is_cpu() || from.is_cpu())
    count_copy(to.is_cpu(), from_pinned || is_pinned(to), static_cast<std::int64_t>(to.nbytes()));
  const c10::Stream usual(c10::Stream::DEFAULT, device);
  if (from.is_cpu() && !streams().is_before(streams().latest(usual), work.stream))
    count_copy_ahead();
  if (non_blocking && is_pinned(to)) {
    at::Tensor numbers = at::empty_like(to);
    numbers.copy_(views.of(from, /*writes=*/false));
    pinned.copied_to(to, std::move(numbers), work);
    return to;
  }
  if (from_pinned) pinned.copied_from(from, work);
  views.of(to, /*writes=*/true).copy_(views.of(from, /*writes=*/false));
  // The driver has read or written pageable memory before the call returns.
  const bool is_to_pageable = to.is_cpu() && !is_pinned(to);
  if ((!non_blocking || is_to_pageable) && !(to.is_cuda() && from.is_cuda()))
    streams().synchronize(streams().current(device));
  if (is_between_cards) order_streams(from.device(), to.device());
  return to;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  at::Tensor result = to;
  return copy(result, from, non_blocking);
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, /*non_blocking=*/false);
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset ? std::optional<std::int64_t>(offset->expect_int()) : std::nullopt);
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size,
                         c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size),
                                    C10_AS_INTARRAYREF_SLOW(stride));
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, c10::SymInt offset,
                        c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(source), offset.expect_int(),
                                      C10_AS_INTARRAYREF_SLOW(size),
                                      C10_AS_INTARRAYREF_SLOW(stride));
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  card_allocator().recordStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("resize_", &resize);
  library.impl("copy_", &copy);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("as_strided", &as_strided);
  library.impl("view", &view);
  library.impl("_reshape_alias", &reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("set_.source_Storage",
               static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(&at::native::set_));
  library.impl("set_.source_Tensor", &at::native::set_tensor_);
  library.impl("record_stream", &record_stream);
  // LibTorch would choose other kernels than on a CPU.
  for (const char* const name : {"convolution", "convolution_backward", "convolution_overrideable",
                                 "convolution_backward_overrideable"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  // A CPU has no kernels for many tensors at once; a GPU launches one.
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.starts_with("aten::_foreach_"))
      library.impl(c10::toString(name).c_str(),
                   torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  }
}

}  // namespace
}  // namespace stand_in
