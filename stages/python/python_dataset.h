#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"
#include "stages/python/reader_pool.h"

namespace stages {

/// A data set that Python makes, or some of its samples. A sample is a function of (seed, its
/// number): the generators of Python, numpy and torch are seeded by them. In for_training() it is a
/// function of (seed, epoch, its number), unless the recipe says that samples do not change.
class PythonDataset final : public Dataset, public AugmentedDataset {
 public:
  /// Of the pool's data set `set` the samples `numbers`, in that order; nullopt: all.
  PythonDataset(std::shared_ptr<ReaderPool> pool, std::size_t set,
                std::optional<std::vector<std::int64_t>> numbers);

  DatasetDescription describe() const override { return description_; }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override {
    return pool_->sample_name(set_, number(index));
  }
  LoaderOptions loader() const override { return pool_->options().loader; }
  /// Where the data set knows them: its attribute `targets` or `labels`, or its column "label".
  std::vector<std::int64_t> labels() const override;
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
