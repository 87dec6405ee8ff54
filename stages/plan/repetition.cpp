#include "stages/plan/repetition.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace stages {
namespace {

using Recorder = MemoryTrace::Recorder;

/// Describes a tensor that remains after the section that began at `begin`; nullopt if its storage
/// is new but not among the survivors.
std::optional<RecordedPart::Left> left_by(const Recorder& recorder, const Recorder::Place& begin,
                                          const Recorder::Stretch& stretch, std::string name,
                                          const at::Tensor& tensor) {
  RecordedPart::Left left{.name = std::move(name),
                          .dtype = tensor.scalar_type(),
                          .sizes = tensor.sizes().vec(),
                          .strides = tensor.strides().vec(),
                          .offset = tensor.storage_offset()};
  const auto index = recorder.find(tensor);
  if (!index || *index < begin.storages) {
    left.older = tensor;
    return left;
  }
  const auto found = std::ranges::find(stretch.survivors, *index - begin.storages);
  if (found == stretch.survivors.end()) return {};
  left.survivor = static_cast<std::size_t>(found - stretch.survivors.begin());
  return left;
}

/// Creates a tensor without using torch's operations, which the trace would count.
at::Tensor remade(const RecordedPart::Left& left, const std::vector<c10::Storage>& survivors) {
  if (!left.survivor) return left.older;
  const at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(survivors[*left.survivor]), c10::DispatchKeySet(c10::DispatchKey::Meta),
      c10::scalarTypeToTypeMeta(left.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(left.sizes, left.strides, left.offset);
  return tensor;
}

/// Returns the names of a batch's tensors with the indices of their storages.
std::vector<std::pair<std::string, std::size_t>> storages_of(const Recorder& recorder,
                                                             const Batch& batch) {
  std::vector<std::pair<std::string, std::size_t>> result;
  for (const auto& [name, tensor] : batch.tensors()) {
    if (const auto index = recorder.find(tensor)) result.emplace_back(name, *index);
  }
  return result;
}

}  // namespace

bool RecordedPart::Left::operator==(const Left& other) const {
  return name == other.name && survivor == other.survivor && older.is_same(other.older) &&
         dtype == other.dtype && sizes == other.sizes && strides == other.strides &&
         offset == other.offset;
}

bool RecordedPart::is_like(const RecordedPart& other) const {
  return size == other.size && stretch.is_like(other.stretch) && given == other.given &&
         gradients == other.gradients && had_gradient == other.had_gradient;
}

void RecordedParts::keep_whole_batches() {
  std::erase_if(parts_, [](const auto& entry) {
    const auto& [key, part] = entry;
    return !part || part->size < std::get<1>(key);
  });
}

NamedTensors Repetition::next(std::int64_t size, const std::function<NamedTensors()>& work) {
  Recorder* const recorder = living_recorder();
  if (!recorder || recorder->repeated == Repeated::kComputed) return work();
  if (loop_ && begin_ == 0) parameters_ = loop_->network.parameters();
  const std::int64_t first = std::exchange(begin_, begin_ + size);
  if (is_known_ && last_->size == size) return again(*recorder, *last_, last_storage_);
  Before now = before(*recorder);
  std::shared_ptr<const RecordedPart>* earlier = nullptr;
  if (loop_) {
    earlier = &recorder->parts->at(loop_->name, loop_->batch.units(), first);
    if (*earlier && is_same(now, **earlier, size)) return anew(*recorder, *earlier);
  }
  NamedTensors given = work();
  const std::size_t first_storage = now.place.storages;
  std::shared_ptr<const RecordedPart> done = part(*recorder, std::move(now), size, given);
  if (earlier && done && done->is_repeatable) *earlier = done;
  advance(std::move(done), first_storage);
  return given;
}

Repetition::Before Repetition::before(const Recorder& recorder) const {
  Before now{.place = recorder.place(), .had_gradient = {}, .batch = {}, .owners = {}};
  if (!loop_) return now;
  for (const at::Tensor& parameter : parameters_)
    now.had_gradient.push_back(parameter.grad().defined());
  for (const auto& [name, index] : storages_of(recorder, loop_->batch))
    now.batch.emplace_back(name, recorder.storages[index]);
  for (const TracedStorage& storage : recorder.storages) now.owners.push_back(storage.owner);
  return now;
}

bool Repetition::is_same(const Before& now, const RecordedPart& known, std::int64_t size) const {
  return known.size == size && known.had_gradient == now.had_gradient &&
         std::ranges::all_of(known.described, [&](const RecordedPart::Described& one) {
           return std::ranges::find(now.batch, std::pair(one.name, one.before)) != now.batch.end();
         });
}

NamedTensors Repetition::anew(Recorder& recorder, std::shared_ptr<const RecordedPart> part) {
  for (const auto& [name, index] : storages_of(recorder, loop_->batch)) {
    const auto described = std::ranges::find(part->described, name, &RecordedPart::Described::name);
    if (described != part->described.end()) recorder.storages[index] = described->after;
  }
  const std::size_t first_storage = recorder.storages.size();
  NamedTensors given = again(recorder, *part, /*first_storage=*/{});
  advance(std::move(part), first_storage);
  return given;
}

void Repetition::advance(std::shared_ptr<const RecordedPart> now, std::size_t first_storage) {
  last_storage_ = first_storage;
  is_known_ = now && last_ && now->is_like(*last_);
  last_ = std::move(now);
}

std::shared_ptr<const RecordedPart> Repetition::part(const Recorder& recorder, Before before,
                                                     std::int64_t size,
                                                     const NamedTensors& given) const {
  auto stretch = recorder.since(before.place);
  if (!stretch) return {};
  RecordedPart result{.size = size,
                      .stretch = *std::move(stretch),
                      .given = {},
                      .gradients = {},
                      .had_gradient = before.had_gradient,
                      .described = {}};
  std::vector<bool> is_left(result.stretch.survivors.size());
  for (const auto& [name, tensor] : given) {
    auto left = left_by(recorder, before.place, result.stretch, name, tensor);
    if (!left) return {};
    if (left->survivor) is_left[*left->survivor] = true;
    result.given.push_back(*std::move(left));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].grad();
    if (!gradient.defined() || result.had_gradient[i]) continue;
    auto left = left_by(recorder, before.place, result.stretch, "", gradient);
    if (!left || !left->survivor) return {};
    is_left[*left->survivor] = true;
    result.gradients.emplace_back(i, *std::move(left));
  }
  if (!std::ranges::all_of(is_left, std::identity())) return {};
  if (loop_) note_described(recorder, before, result);
  return std::make_shared<const RecordedPart>(std::move(result));
}

/// Autograd may save one of the batch's tensors, which then counts as an activation. A part that
/// changes the owner of any other storage, or returns an older tensor, is computed for each batch.
void Repetition::note_described(const Recorder& recorder, const Before& before,
                                RecordedPart& part) const {
  std::vector<std::size_t> of_batch;
  std::size_t i = 0;
  for (const auto& [name, index] : storages_of(recorder, loop_->batch)) {
    of_batch.push_back(index);
    const TracedStorage& then = before.batch[i++].second;
    const TracedStorage& now = recorder.storages[index];
    if (!(then == now)) part.described.push_back({name, then, now});
  }
  part.is_repeatable =
      std::ranges::all_of(part.given, [](const auto& left) { return left.survivor.has_value(); });
  for (std::size_t index = 0; index < before.owners.size(); ++index) {
    if (recorder.storages[index].owner == before.owners[index]) continue;
    if (std::ranges::find(of_batch, index) == of_batch.end()) part.is_repeatable = false;
  }
}

NamedTensors Repetition::again(Recorder& recorder, const RecordedPart& part,
                               std::optional<std::size_t> first_storage) {
  const std::vector<c10::Storage> survivors = recorder.note_again(part.stretch, first_storage);
  for (const auto& [parameter, left] : part.gradients)
    parameters_[parameter].mutable_grad() = remade(left, survivors);
  NamedTensors result;
  for (const RecordedPart::Left& left : part.given) result.set(left.name, remade(left, survivors));
  return result;
}

}  // namespace stages
