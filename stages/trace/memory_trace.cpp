#include "stages/trace/memory_trace.h"

#include <cassert>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include <torch/torch.h>

#include "stages/tensor/module_names.h"
#include "stages/trace/operations.h"
#include "stages/trace/saved_tensors.h"

namespace stages {

/// What a trace knows. Its storages may outlive the trace, so the last of them and the trace share it.
class MemoryTrace::Recorder final : public std::enable_shared_from_this<MemoryTrace::Recorder>,
                                    public ScopedOperations::Observer {
 public:
  explicit Recorder(Backend backend) : backend(std::move(backend)) {}

  /// Begins to watch this thread.
  void open();
  /// From here on nothing is recorded.
  void close();

  c10::DataPtr birth(std::int64_t bytes);
  void own(const at::Tensor& tensor, Owner owner, std::string name);
  void mark(const at::Tensor& tensor, bool TracedStorage::*as);
  double flops_so_far() const { return flops + (operations ? operations->flops() : 0); }

  const Backend backend;
  mutable std::mutex mutex;  // storages may die on any thread
  std::vector<TracedStorage> storages;
  std::vector<TraceEvent> events;
  double flops = 0;
  std::optional<ScopedOperations> operations;

 private:
  /// What stands for a storage's memory: its death is the storage's.
  struct Block {
    std::shared_ptr<Recorder> recorder;
    std::size_t index;
  };
  static void death(void* block);
  /// The index of a tensor's storage; nullopt where it is no storage of this trace.
  std::optional<std::size_t> index_of(const at::Tensor& tensor) const;
  void describe(std::size_t index, const at::Tensor& tensor);
  void saved(const at::Tensor& tensor);
  void result(const at::Tensor& tensor) override;
  void sum_begins(const at::Tensor& gradient) override;
  void sum_ends(const at::Tensor& sum) override;

  /// A sum of the engine's: on other devices it is written over one of its parts, if nobody else holds that; on Meta it
  /// never is.
  struct Sum {
    std::size_t part;
    std::optional<std::size_t> result = {};  // once it is there
    std::size_t birth = 0;                   // of the result, among the events
  };

  bool is_open_ = false;
  std::vector<bool> is_owned_;             // of each storage: own() has spoken
  std::vector<std::size_t> operation_of_;  // of each storage: the number of the operation that made it
  std::vector<std::size_t> stands_for_;    // of each storage: the one whose memory it has, or it itself
  std::optional<Sum> sum_;                 // the last one, as long as nothing was born after it
  std::optional<ScopedSavedTensors> saved_tensors_;
};

namespace {

MemoryTrace::Recorder* living = nullptr;

class TracingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, at::Device(at::kMeta)};
    return living->birth(static_cast<std::int64_t>(bytes));
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {}
};

/// The allocator of the Meta device when no trace lives.
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
  }
  assert(false);
  return "";
}

void MemoryTrace::Recorder::open() {
  is_open_ = true;
  operations.emplace(*this);
  saved_tensors_.emplace([this](const at::Tensor& tensor) { saved(tensor); });
}

void MemoryTrace::Recorder::close() {
  saved_tensors_.reset();
  flops += operations->flops();
  operations.reset();
  const std::lock_guard lock(mutex);
  is_open_ = false;
}

c10::DataPtr MemoryTrace::Recorder::birth(std::int64_t bytes) {
  const std::lock_guard lock(mutex);
  const std::size_t index = storages.size();
  const StepPhase phase = current_phase();
  storages.push_back({.bytes = bytes, .name = {}, .operation = operations->current(), .phase = phase, .shape = {}});
  is_owned_.push_back(false);
  operation_of_.push_back(operations->number());
  stands_for_.push_back(index);
  if (sum_ && sum_->result) sum_.reset();
  if (sum_) sum_->birth = events.size();
  events.push_back({.storage = index, .is_birth = true, .phase = phase, .flops = flops_so_far()});
  return {nullptr, new Block{shared_from_this(), index}, &death, at::Device(at::kMeta)};
}

void MemoryTrace::Recorder::death(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  if (!block) return;
  Recorder& self = *block->recorder;
  const std::lock_guard lock(self.mutex);
  if (!self.is_open_) return;
  const std::size_t index = self.stands_for_[block->index];
  if (self.sum_ && self.sum_->result && self.sum_->part == index) {
    self.events.erase(self.events.begin() + static_cast<std::ptrdiff_t>(self.sum_->birth));
    self.stands_for_[*self.sum_->result] = index;
    self.sum_.reset();
    return;
  }
  self.events.push_back({.storage = index, .is_birth = false, .phase = current_phase(), .flops = self.flops_so_far()});
}

std::optional<std::size_t> MemoryTrace::Recorder::index_of(const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.is_meta() || !tensor.has_storage()) return {};
  const c10::DataPtr& data = tensor.storage().data_ptr();
  if (data.get_deleter() != &death || !data.get_context()) return {};
  const auto* block = static_cast<const Block*>(data.get_context());
  if (block->recorder.get() != this) return {};
  return stands_for_[block->index];
}

void MemoryTrace::Recorder::describe(std::size_t index, const at::Tensor& tensor) {
  storages[index].shape = tensor.sizes().vec();
  storages[index].dtype = tensor.scalar_type();
}

void MemoryTrace::Recorder::own(const at::Tensor& tensor, Owner owner, std::string name) {
  const std::lock_guard lock(mutex);
  const auto index = index_of(tensor);
  if (!index) return;
  storages[*index].owner = owner;
  storages[*index].name = std::move(name);
  describe(*index, tensor);
  is_owned_[*index] = true;
}

void MemoryTrace::Recorder::mark(const at::Tensor& tensor, bool TracedStorage::*as) {
  const std::lock_guard lock(mutex);
  if (const auto index = index_of(tensor)) storages[*index].*as = true;
}

void MemoryTrace::Recorder::saved(const at::Tensor& tensor) {
  const at::TensorBase& root = tensor.is_view() ? tensor._base() : tensor;
  if (root.is_leaf() && root.requires_grad()) return;  // a parameter, which lives anyway
  const std::lock_guard lock(mutex);
  const auto index = index_of(tensor);
  if (!index || is_owned_[*index] || storages[*index].is_cast || storages[*index].owner == Owner::kSavedActivation)
    return;
  storages[*index].owner = Owner::kSavedActivation;
  storages[*index].name = running_path();
  if (storages[*index].shape.empty()) describe(*index, tensor);
}

/// The result of the outermost operation that made a storage says its shape; those of the operations within it may be
/// views of other shapes, which come first.
void MemoryTrace::Recorder::result(const at::Tensor& tensor) {
  const std::lock_guard lock(mutex);
  const auto index = index_of(tensor);
  if (!index || is_owned_[*index] || operation_of_[*index] != operations->number()) return;
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  if (bytes == storages[*index].bytes || storages[*index].shape.empty()) describe(*index, tensor);
}

void MemoryTrace::Recorder::sum_begins(const at::Tensor& gradient) {
  const std::lock_guard lock(mutex);
  sum_.reset();
  const auto part = index_of(gradient);
  if (part && gradient.is_non_overlapping_and_dense()) sum_ = Sum{.part = *part};
}

void MemoryTrace::Recorder::sum_ends(const at::Tensor& sum) {
  result(sum);
  const std::lock_guard lock(mutex);
  if (sum_) sum_->result = index_of(sum);
  if (sum_ && !sum_->result) sum_.reset();
}

MemoryTrace::MemoryTrace(Backend backend) : recorder_(std::make_shared<Recorder>(std::move(backend))) {
  if (living) throw std::logic_error("a memory trace lives already");
  static auto* const allocator = new TracingAllocator;  // never destroyed, as torch wants it
  recorder_->open();
  living = recorder_.get();
  ordinary = c10::GetAllocator(at::kMeta);
  c10::SetAllocator(at::kMeta, allocator);
}

MemoryTrace::~MemoryTrace() {
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

double MemoryTrace::flops() const { return recorder_->flops_so_far(); }

std::int64_t MemoryTrace::operations() const {
  return recorder_->operations ? static_cast<std::int64_t>(recorder_->operations->number()) : 0;
}

const Backend* traced_backend() { return living ? &living->backend : nullptr; }

void count_flops(double flops) {
  if (living) living->flops += flops;
}

void mark_scratch(const at::Tensor& tensor) {
  if (living) living->mark(tensor, &TracedStorage::is_scratch);
}

void mark_cast(const at::Tensor& tensor) {
  if (living) living->mark(tensor, &TracedStorage::is_cast);
}

}  // namespace stages
