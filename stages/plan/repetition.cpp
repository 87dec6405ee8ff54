#include "stages/plan/repetition.h"

#include <algorithm>

#include <torch/types.h>

namespace stages {

bool Repetition::Given::operator==(const Given& other) const {
  return name == other.name && survivor == other.survivor && older.is_same(other.older) &&
         dtype == other.dtype && sizes == other.sizes && strides == other.strides &&
         offset == other.offset;
}

NamedTensors Repetition::next(std::int64_t size, const std::function<NamedTensors()>& work) {
  MemoryTrace::Recorder* const recorder = living_recorder();
  if (!recorder || recorder->repeated == Repeated::kComputed) return work();
  if (is_known_ && last_->size == size) return again(*recorder);
  const MemoryTrace::Recorder::Place begin = recorder->place();
  NamedTensors given = work();
  std::optional<Part> now = part(*recorder, begin, size, given);
  is_known_ = now && last_ && now->size == last_->size && now->stretch.is_like(last_->stretch) &&
              now->given == last_->given;
  last_ = std::move(now);
  return given;
}

std::optional<Repetition::Part> Repetition::part(const MemoryTrace::Recorder& recorder,
                                                 const MemoryTrace::Recorder::Place& begin,
                                                 std::int64_t size, const NamedTensors& given) {
  auto stretch = recorder.since(begin);
  if (!stretch) return {};
  Part result{.size = size, .stretch = *std::move(stretch), .given = {}};
  std::vector<bool> is_given(result.stretch.survivors.size());
  for (const auto& [name, tensor] : given) {
    Given& one = result.given.emplace_back(Given{.name = name,
                                                 .dtype = tensor.scalar_type(),
                                                 .sizes = tensor.sizes().vec(),
                                                 .strides = tensor.strides().vec(),
                                                 .offset = tensor.storage_offset()});
    const auto index = recorder.find(tensor);
    if (!index || *index < begin.storages) {
      one.older = tensor;
      continue;
    }
    const auto found = std::ranges::find(result.stretch.survivors, *index - begin.storages);
    if (found == result.stretch.survivors.end()) return {};
    one.survivor = static_cast<std::size_t>(found - result.stretch.survivors.begin());
    is_given[*one.survivor] = true;
  }
  if (!std::ranges::all_of(is_given, std::identity())) return {};
  return result;
}

/// Makes tensors without torch's operations, which the trace would count.
NamedTensors Repetition::again(MemoryTrace::Recorder& recorder) const {
  const std::vector<c10::Storage> storages = recorder.note_again(last_->stretch);
  NamedTensors result;
  for (const Given& one : last_->given) {
    if (!one.survivor) {
      result.set(one.name, one.older);
      continue;
    }
    const at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(storages[*one.survivor]), c10::DispatchKeySet(c10::DispatchKey::Meta),
        c10::scalarTypeToTypeMeta(one.dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(one.sizes, one.strides, one.offset);
    result.set(one.name, tensor);
  }
  return result;
}

}  // namespace stages
