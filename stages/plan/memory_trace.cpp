#include "stages/plan/memory_trace.h"

#include <cassert>
#include <stdexcept>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/plan/recorder.h"
#include "stages/plan/repetition.h"

namespace stages {
namespace {

/// Calls a torch operator that reports a oneDNN capability; returns false if torch lacks the
/// operator.
bool torch_says(const char* operation) {
  const auto found = c10::Dispatcher::singleton().findSchema({operation, ""});
  return found && found->typed<bool()>().call();
}

/// True if oneDNN multiplies matrices faster than MKL, which torch uses and which is tuned for
/// Intel CPUs: on two cores of an EPYC 9004, MKL reaches 190 GFLOPS and oneDNN 215.
bool is_quicker_by_onednn() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx2");
#else
  return false;
#endif
}

}  // namespace

const Processor& this_processor() {
  static const Processor processor{.bf16 = torch_says("mkldnn::_is_mkldnn_bf16_supported"),
                                   .fp16 = torch_says("mkldnn::_is_mkldnn_fp16_supported"),
                                   .onednn_multiplies = is_quicker_by_onednn()};
  return processor;
}

bool onednn_unfolds_images() {
  static const bool is_so = [] {
    constexpr std::int64_t kChannels = 16, kSide = 8, kKernel = 5, kPadding = kKernel / 2;
    const c10::InferenceMode no_gradients;
    const at::Tensor image = torch::zeros({1, kChannels, kSide, kSide}),
                     weight = torch::zeros({kChannels, kChannels, kKernel, kKernel});
    const CountingAllocator counter;
    at::convolution_backward(image, image, weight, {}, {1, 1}, {kPadding, kPadding}, {1, 1},
                             /*transposed=*/false, {0, 0}, /*groups=*/1, {false, true, false});
    // A direct kernel keeps the gradient twice, once in its own memory order. A kernel that unfolds
    // images uses four times as much per thread, plus the unfolded image.
    return counter.peak_bytes() > 4 * static_cast<std::int64_t>(weight.nbytes());
  }();
  return is_so;
}

namespace {

MemoryTrace::Recorder* living = nullptr;
int untraced = 0;  // number of live ScopedUntraced objects

class TracingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0 || untraced > 0) return {nullptr, at::Device(at::kMeta)};
    return living->birth(static_cast<std::int64_t>(bytes));
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {}
};

/// The allocator of the Meta device outside a trace.
c10::Allocator* ordinary = nullptr;

}  // namespace

std::string_view name(Owner owner) {
  switch (owner) {
    case Owner::kParameter:
      return "parameter";
    case Owner::kGradient:
      return "gradient";
    case Owner::kOptimizerState:
      return "optimizer_state";
    case Owner::kSavedActivation:
      return "saved_activation";
    case Owner::kBuffer:
      return "buffer";
    case Owner::kInput:
      return "input";
    case Owner::kTransient:
      return "transient";
    case Owner::kMeasured:
      return "measured";
  }
  assert(false);
  return "";
}

MemoryTrace::MemoryTrace(Backend backend, Repeated repeated, std::shared_ptr<RecordedParts> parts)
    : recorder_(std::make_shared<Recorder>(
          std::move(backend), repeated,
          parts ? std::move(parts) : std::make_shared<RecordedParts>())) {
  if (living) throw std::logic_error("another memory trace is still live");
  static auto* const allocator = new TracingAllocator;  // never destroyed, as torch requires
  recorder_->open();
  living = recorder_.get();
  ordinary = c10::GetAllocator(at::kMeta);
  c10::SetAllocator(at::kMeta, allocator);
}

MemoryTrace::~MemoryTrace() { end(); }

void MemoryTrace::end() {
  if (living != recorder_.get()) return;
  c10::SetAllocator(at::kMeta, ordinary);
  living = nullptr;
  recorder_->close();
}

void MemoryTrace::own(const at::Tensor& tensor, Owner owner, std::string name) {
  recorder_->own(tensor, owner, std::move(name));
}

const Backend& MemoryTrace::backend() const { return recorder_->backend; }

std::vector<TracedStorage> MemoryTrace::storages() const {
  const std::lock_guard lock(recorder_->mutex);
  return recorder_->storages;
}

std::vector<TraceEvent> MemoryTrace::events() const {
  const std::lock_guard lock(recorder_->mutex);
  return recorder_->events;
}

RecordedWork MemoryTrace::finish() {
  end();
  const std::lock_guard lock(recorder_->mutex);
  return {std::move(recorder_->storages), std::move(recorder_->events)};
}

double MemoryTrace::flops() const { return recorder_->flops_so_far(); }

std::int64_t MemoryTrace::launches() const { return recorder_->launches_so_far(); }

MemoryTrace::Recorder* living_recorder() { return living; }

ScopedUntraced::ScopedUntraced() { ++untraced; }
ScopedUntraced::~ScopedUntraced() { --untraced; }

const Backend* traced_backend() { return living ? &living->backend : nullptr; }

void count_flops(double flops) {
  if (living) living->flops += flops;
}

void mark_scratch(const at::Tensor& tensor) {
  if (living) living->mark(tensor, &TracedStorage::is_scratch);
}

void mark_gradient(const at::Tensor& tensor) {
  if (living) living->own(tensor, Owner::kGradient, "");
}

void mark_parameters(const at::Tensor& tensor, const std::string& name) {
  if (living) living->own(tensor, Owner::kParameter, name);
}

void mark_cast(const at::Tensor& tensor) {
  if (living) living->mark(tensor, &TracedStorage::is_cast);
}

void mark_pool(const at::Tensor& tensor) {
  if (!living) return;
  living->own(tensor, Owner::kBuffer, "the memory of the CUDA graph");
  living->mark(tensor, &TracedStorage::is_pool);
}

}  // namespace stages
