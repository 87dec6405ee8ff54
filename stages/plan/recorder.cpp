#include "stages/plan/recorder.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <ATen/record_function.h>
#include <torch/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/types.h>

#include "stages/tensor/loss_term.h"
#include "stages/tensor/module_names.h"

namespace stages {
namespace {

thread_local ScopedOperations* operations_of_thread = nullptr;

/// The autograd engine names the evaluation of a node with this prefix, as in
/// "autograd::engine::evaluate_function: AddmmBackward0".
constexpr std::string_view kEngine = "autograd::engine::evaluate_function: ";

/// Returns the 1-based position of a product's first factor among its arguments; 0 if the operation
/// is not a product. The second factor follows the first.
int first_factor(std::string_view name) {
  if (name == "aten::mm" || name == "aten::bmm" || name == "aten::mv" || name == "aten::dot")
    return 1;
  if (name == "aten::addmm" || name == "aten::addmm_" || name == "aten::baddbmm" ||
      name == "aten::baddbmm_" || name == "aten::addmv" || name == "aten::addmv_")
    return 2;
  return 0;
}

/// Each value of the first factor is multiplied by a row of the second.
double product_flops(const at::Tensor& first, const at::Tensor& second) {
  const double row = first.dim() > 1 && second.dim() > 1 ? static_cast<double>(second.size(-1)) : 1;
  return 2.0 * static_cast<double>(first.numel()) * row;
}

/// Shortens the name of one of our own autograd functions:
/// "torch::autograd::CppNode<stages::(anonymous namespace)::QuickGelu>" becomes
/// "QuickGeluBackward", and one called LinearFunction becomes "LinearBackward". Any other name is
/// unchanged.
std::string short_name(std::string_view name) {
  constexpr std::string_view kOwn = "torch::autograd::CppNode<", kFunction = "Function";
  if (!name.starts_with(kOwn)) return std::string(name);
  name.remove_suffix(1);
  name.remove_prefix(name.rfind(':') + 1);
  if (name.ends_with(kFunction)) name.remove_suffix(kFunction.size());
  return std::string(name) + "Backward";
}

}  // namespace

std::string running_purpose() {
  std::string path = running_path();
  if (path.empty() && running_loss_term) return running_loss_term;
  return path;
}

struct ScopedOperations::Callbacks {
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    ScopedOperations* const self = operations_of_thread;
    if (!self) return nullptr;
    const std::string_view name = function.name();
    const bool is_engine = name.starts_with(kEngine);
    if (self->levels_.empty()) {
      self->outermost_ = short_name(is_engine ? name.substr(kEngine.size()) : name);
      ++self->number_;
    }
    if (!is_engine) self->note_purpose(function);
    if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
      self->levels_.push_back(Level::kNode);
      return nullptr;
    }
    const bool is_within = !self->levels_.empty() && self->levels_.back() != Level::kEngine &&
                           self->levels_.back() != Level::kNode;
    if (!is_engine && !is_within) ++self->launches_;
    const bool is_sum =
        name == "aten::add" && !self->levels_.empty() && self->levels_.back() == Level::kEngine;
    self->levels_.push_back(is_engine ? Level::kEngine : is_sum ? Level::kSum : Level::kOperation);
    if (is_sum) self->observer_.sum_begins(function.inputs()[0].toTensor());
    if (const int factor = first_factor(name)) {
      const auto inputs = function.inputs();
      const auto at = [&](int i) { return inputs[static_cast<std::size_t>(i)].toTensor(); };
      self->flops_ += product_flops(at(factor - 1), at(factor));
    }
    return nullptr;
  }

  static void end(const at::RecordFunction& function, at::ObserverContext*) {
    ScopedOperations* const self = operations_of_thread;
    if (!self || self->levels_.empty()) return;
    const Level level = self->levels_.back();
    self->levels_.pop_back();
    if (level == Level::kOperation || level == Level::kSum)
      self->show(function, level == Level::kSum);
    if (!self->levels_.empty()) return;
    self->outermost_.clear();
    self->purpose_of_node_.clear();
  }
};

/// An operation has the sequence number that the next node will get, so the last operation with
/// that number created the node.
void ScopedOperations::note_purpose(const at::RecordFunction& function) {
  const std::int64_t number = function.seqNr();
  if (number < 0) return;
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    const auto found = purposes_.find(number);
    purpose_of_node_ = found == purposes_.end() ? "" : found->second;
  } else if (at::GradMode::is_enabled()) {
    purposes_[number] = running_purpose();
  }
}

std::string ScopedOperations::purpose() const {
  std::string running = running_purpose();
  return running.empty() ? purpose_of_node_ : running;
}

void ScopedOperations::show(const at::RecordFunction& function, bool is_sum) {
  const auto show = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (is_sum) observer_.sum_ends(tensor);
    else observer_.result(tensor);
  };
  for (const c10::IValue& output : function.outputs()) {
    if (output.isTensor()) show(output.toTensor());
    if (!output.isTensorList()) continue;
    for (const at::Tensor& tensor : output.toTensorVector()) show(tensor);
  }
}

ScopedOperations::ScopedOperations(Observer& observer) : observer_(observer) {
  if (operations_of_thread)
    throw std::logic_error("operations of this thread are already being tracked");
  operations_of_thread = this;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&Callbacks::begin, &Callbacks::end)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

ScopedOperations::~ScopedOperations() {
  at::removeCallback(handle_);
  operations_of_thread = nullptr;
}

namespace {

thread_local const std::function<void(const at::Tensor&)>* show_on_thread = nullptr;

/// Keeps the tensor's memory, like autograd without hooks, but not its history: otherwise the graph
/// would own itself.
class Shown final : public torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override {
    kept_ = tensor.tensor_data();
    if (show_on_thread) (*show_on_thread)(tensor);
  }
  at::Tensor call_unpack_hook() override { return kept_; }

 private:
  at::Tensor kept_;
};

/// In C++, such hooks can only be set through an engine.
class ShowingEngine final : public torch::autograd::Engine {
 public:
  /// LibTorch starts threads for GPUs once in a process, for the first engine that runs. This
  /// engine needs its own threads, even if another engine has run before.
  ShowingEngine() {
    get_base_engine().initialize_device_threads_pool();
    start_device_threads();
  }
  static torch::autograd::Engine& instance() {
    static auto* const engine = new ShowingEngine;  // never destroyed: its threads outlive main()
    return *engine;
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return show_on_thread ? std::make_unique<Shown>() : nullptr;
  }
};

}  // namespace

ScopedSavedTensors::ScopedSavedTensors(std::function<void(const at::Tensor&)> show)
    : show_(std::move(show)), before_(show_on_thread) {
  [[maybe_unused]] static const bool is_installed = [] {
    torch::autograd::set_default_engine_stub(ShowingEngine::instance);
    return true;
  }();
  show_on_thread = &show_;
}

ScopedSavedTensors::~ScopedSavedTensors() { show_on_thread = before_; }

void MemoryTrace::Recorder::open() {
  is_open_ = true;
  operations.emplace(*this);
  saved_tensors_.emplace([this](const at::Tensor& tensor) { saved(tensor); });
}

void MemoryTrace::Recorder::close() {
  saved_tensors_.reset();
  flops += operations->flops();
  launches += operations->launches();
  operations.reset();
  const std::lock_guard lock(mutex);
  is_open_ = false;
}

c10::DataPtr MemoryTrace::Recorder::birth(std::int64_t bytes) {
  const std::lock_guard lock(mutex);
  const StepPhase phase = current_phase();
  const std::size_t index = add({.bytes = bytes,
                                 .name = operations->purpose(),
                                 .operation = operations->current(),
                                 .module = running_path(),
                                 .phase = phase,
                                 .shape = {}});
  if (sum_ && sum_->result) sum_.reset();
  if (sum_) sum_->birth = events.size();
  events.push_back({.storage = index, .is_birth = true, .phase = phase, .flops = flops_so_far()});
  return block(index);
}

c10::DataPtr MemoryTrace::Recorder::block(std::size_t index) {
  return {nullptr, new Block{shared_from_this(), index}, &death, at::Device(at::kMeta)};
}

std::size_t MemoryTrace::Recorder::add(TracedStorage storage) {
  const std::size_t index = storages.size();
  storages.push_back(std::move(storage));
  is_owned_.push_back(false);
  operation_of_.push_back(operations->number());
  stands_for_.push_back(index);
  return index;
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
  self.events.push_back({.storage = index,
                         .is_birth = false,
                         .phase = current_phase(),
                         .flops = self.flops_so_far()});
}

std::optional<std::size_t> MemoryTrace::Recorder::index_of(const at::Tensor& tensor) const {
  if (!is_open_ || !tensor.defined() || !tensor.is_meta() || !tensor.has_storage()) return {};
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
  if (root.is_leaf() && root.requires_grad()) return;  // a parameter, which is live anyway
  const std::lock_guard lock(mutex);
  const auto index = index_of(tensor);
  if (!index || is_owned_[*index] || storages[*index].is_cast ||
      storages[*index].owner == Owner::kSavedActivation)
    return;
  storages[*index].owner = Owner::kSavedActivation;
  storages[*index].name = running_purpose();
  if (storages[*index].shape.empty()) describe(*index, tensor);
}

/// Only the outermost operation that allocated a storage determines its shape. Results of inner
/// operations come first and may be views of other shapes.
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

MemoryTrace::Recorder::Place MemoryTrace::Recorder::place() const {
  const std::lock_guard lock(mutex);
  return {events.size(), storages.size(), flops_so_far(), launches_so_far()};
}

namespace {

/// Sorts the events of storages that are freed together, such as autocast's casts, by their
/// allocation, since their order is arbitrary.
std::vector<TraceEvent> sorted_deaths(std::vector<TraceEvent> events) {
  const auto is_at_once = [](const TraceEvent& a, const TraceEvent& b) {
    return !a.is_birth && !b.is_birth && a.phase == b.phase && a.flops == b.flops;
  };
  for (auto begin = events.begin(); begin != events.end();) {
    const auto end = std::find_if_not(std::next(begin), events.end(),
                                      [&](const auto& one) { return is_at_once(*begin, one); });
    std::ranges::sort(begin, end, {}, &TraceEvent::storage);
    begin = end;
  }
  return events;
}

}  // namespace

bool MemoryTrace::Recorder::Stretch::is_like(const Stretch& other) const {
  return storages == other.storages && sorted_deaths(events) == sorted_deaths(other.events) &&
         survivors == other.survivors && flops == other.flops && launches == other.launches;
}

std::optional<MemoryTrace::Recorder::Stretch> MemoryTrace::Recorder::since(
    const Place& begin) const {
  const std::lock_guard lock(mutex);
  const auto from = [](const auto& all, std::size_t first) {
    return std::vector(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
  };
  Stretch stretch{.storages = from(storages, begin.storages),
                  .events = from(events, begin.events),
                  .survivors = {},
                  .flops = flops_so_far() - begin.flops,
                  .launches = launches_so_far() - begin.launches};
  std::vector<bool> is_alive(stretch.storages.size());
  for (TraceEvent& event : stretch.events) {
    if (event.storage < begin.storages) return {};
    event.storage -= begin.storages;
    event.flops -= begin.flops;
    if (is_alive[event.storage] == event.is_birth) return {};
    is_alive[event.storage] = event.is_birth;
  }
  for (std::size_t i = 0; i < is_alive.size(); ++i) {
    if (is_alive[i]) stretch.survivors.push_back(i);
  }
  return stretch;
}

/// A storage that is freed within the section keeps its index, if it has one: since it has already
/// been freed, the index never refers to two live storages.
std::vector<c10::Storage> MemoryTrace::Recorder::note_again(
    const Stretch& stretch, std::optional<std::size_t> first_storage) {
  const std::lock_guard lock(mutex);
  sum_.reset();
  std::vector<std::size_t> index_of(stretch.storages.size());
  for (std::size_t i = 0; i < index_of.size(); ++i)
    index_of[i] = first_storage ? *first_storage + i : add(stretch.storages[i]);
  std::vector<c10::Storage> alive;
  for (const std::size_t survivor : stretch.survivors) {
    if (first_storage) index_of[survivor] = add(stretch.storages[survivor]);
    alive.emplace_back(c10::Storage::use_byte_size_t(),
                       static_cast<std::size_t>(stretch.storages[survivor].bytes),
                       block(index_of[survivor]));
  }
  const double flops_before = flops_so_far();
  for (TraceEvent event : stretch.events) {
    event.storage = index_of[event.storage];
    event.flops += flops_before;
    events.push_back(event);
  }
  flops += stretch.flops;
  launches += stretch.launches;
  return alive;
}

std::optional<std::size_t> MemoryTrace::Recorder::find(const at::Tensor& tensor) const {
  const std::lock_guard lock(mutex);
  return index_of(tensor);
}

}  // namespace stages
