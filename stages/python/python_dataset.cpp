#include "stages/python/python_dataset.h"

#include <utility>

#include "stages/random/random.h"

namespace stages {

PythonDataset::PythonDataset(std::shared_ptr<ReaderPool> pool, std::size_t set,
                             std::optional<std::vector<std::int64_t>> numbers)
    : pool_(std::move(pool)),
      set_(set),
      numbers_(std::move(numbers)),
      description_(pool_->known(set).description) {
  if (numbers_) description_.size = std::ssize(*numbers_);
}

std::optional<NamedTensors> PythonDataset::sample(std::int64_t epoch, std::int64_t index) const {
  const std::int64_t own = number(index);
  const std::int64_t drawn_in = description_.augmented ? epoch : 0;
  Random random(
      {pool_->seed(), static_cast<std::uint64_t>(drawn_in), static_cast<std::uint64_t>(own)});
  return pool_->read(set_, own, random.next());
}

std::vector<std::int64_t> PythonDataset::labels() const {
  const std::vector<std::int64_t>& all = pool_->known(set_).labels;
  if (all.empty() || !numbers_) return all;
  std::vector<std::int64_t> labels;
  for (const std::int64_t number : *numbers_)
    labels.push_back(all.at(static_cast<std::size_t>(number)));
  return labels;
}

std::string PythonDataset::group_of(std::int64_t index) const {
  const std::vector<std::string>& all = pool_->known(set_).groups;
  return all.empty() ? "" : all.at(static_cast<std::size_t>(number(index)));
}

std::shared_ptr<const Dataset> PythonDataset::for_training() const {
  auto view = std::make_shared<PythonDataset>(*this);
  view->description_.augmented = pool_->options().is_augmented;
  return view;
}

}  // namespace stages
