#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"
#include "stages/artifact/grouped_samples.h"
#include "stages/python/reader_pool.h"

namespace stages {

/// A dataset created by Python, or some of its samples. A sample depends only on the seed and its
/// number, since these seed the generators of Python, numpy and torch. In the dataset that
/// for_training() returns, it also depends on the epoch, unless the recipe says that samples do not
/// change.
class PythonDataset final : public Dataset, public AugmentedDataset, public GroupedSamples {
 public:
  /// Provides the samples `numbers` of the pool's dataset `set`, in that order; if `numbers` is
  /// nullopt, all samples.
  PythonDataset(std::shared_ptr<ReaderPool> pool, std::size_t set,
                std::optional<std::vector<std::int64_t>> numbers);

  DatasetDescription describe() const override { return description_; }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override {
    return pool_->sample_name(set_, number(index));
  }
  LoaderOptions loader() const override { return pool_->options().loader; }
  /// Returns the labels if the dataset knows them, from its `targets` or `labels` attribute or its
  /// "label" column; otherwise empty.
  std::vector<std::int64_t> labels() const override;
  std::string group_of(std::int64_t index) const override;
  std::shared_ptr<const Dataset> for_training() const override;

 private:
  std::int64_t number(std::int64_t index) const {
    return numbers_ ? numbers_->at(static_cast<std::size_t>(index)) : index;
  }

  const std::shared_ptr<ReaderPool> pool_;
  const std::size_t set_;
  const std::optional<std::vector<std::int64_t>> numbers_;
  DatasetDescription description_;
};

}  // namespace stages
