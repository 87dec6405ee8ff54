#include "stages/plan/recorder.h"

#include <algorithm>

#include <torch/types.h>

#include "stages/tensor/module_names.h"

namespace stages {

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
  storages[*index].name = running_purpose();
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

MemoryTrace::Recorder::Place MemoryTrace::Recorder::place() const {
  const std::lock_guard lock(mutex);
  return {events.size(), storages.size(), flops_so_far(), launches_so_far()};
}

namespace {

/// What dies at once, such as autocast's casts, dies in an order of no meaning: brings it into that of the births.
std::vector<TraceEvent> sorted_deaths(std::vector<TraceEvent> events) {
  const auto is_at_once = [](const TraceEvent& a, const TraceEvent& b) {
    return !a.is_birth && !b.is_birth && a.phase == b.phase && a.flops == b.flops;
  };
  for (auto begin = events.begin(); begin != events.end();) {
    const auto end =
        std::find_if_not(std::next(begin), events.end(), [&](const auto& one) { return is_at_once(*begin, one); });
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

std::optional<MemoryTrace::Recorder::Stretch> MemoryTrace::Recorder::since(const Place& begin) const {
  const std::lock_guard lock(mutex);
  const auto from = [](const auto& all, std::size_t first) {
    return std::vector(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
  };
  Stretch stretch{.first_storage = begin.storages,
                  .storages = from(storages, begin.storages),
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

/// What dies within the stretch is noted under the index that it had: it is dead by now, and there is no second one of
/// it at a time.
std::vector<c10::Storage> MemoryTrace::Recorder::note_again(const Stretch& stretch) {
  const std::lock_guard lock(mutex);
  sum_.reset();
  std::vector<std::size_t> index_of(stretch.storages.size());
  for (std::size_t i = 0; i < index_of.size(); ++i) index_of[i] = stretch.first_storage + i;
  std::vector<c10::Storage> alive;
  for (const std::size_t survivor : stretch.survivors) {
    index_of[survivor] = add(stretch.storages[survivor]);
    alive.emplace_back(c10::Storage::use_byte_size_t(), static_cast<std::size_t>(stretch.storages[survivor].bytes),
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
