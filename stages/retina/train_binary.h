#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "stages/artifact/dataset.h"

namespace stages {

/// A sample of one of two classes, and its score for ranking.
struct RankedSample {
  double score = 0;  ///< higher if the second class is more likely
  bool is_second = false;
};

/// Returns the area under the ROC curve: how often a sample of the second class ranks above a
/// sample of the first, with a tie counting as one half (Mann and Whitney). Returns nullopt if
/// either class has no samples. Sorts `samples`.
std::optional<double> ranked_area(std::span<RankedSample> samples);

/// A class in a recipe: its number or its name.
using ClassChoice = std::variant<std::int64_t, std::string>;

/// Returns the number of the chosen class among `classes`. Throws runner::StageError at /classes if
/// there is no such class.
std::int64_t chosen_class(const ClassChoice& choice, const std::vector<std::string>& classes);

/// The samples of two classes of a dataset, in the dataset's order, labeled 0 and 1. They train a
/// single logit, for the second class.
class ClassPair final : public Dataset, public RemarkingDataset {
 public:
  /// `labels` are the numbers of two different classes in `source`. With a `batch_size`, every
  /// epoch has a usable batch: if the only batch is incomplete, it is kept even if the loader drops
  /// incomplete batches. Throws runner::StageError if `source` does not list the labels of its
  /// samples, or has no samples of one of the classes. `part` is the name of `source` in errors,
  /// such as "validation data".
  ClassPair(std::shared_ptr<const Dataset> source, std::array<std::int64_t, 2> labels,
            std::int64_t batch_size = 0, const std::string& part = "data");

  DatasetDescription describe() const override;
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override {
    return source_->sample_name(source_index(index));
  }
  LoaderOptions loader() const override;
  runner::HeldMemory held() const override { return source_->held(); }
  std::vector<std::int64_t> labels() const override { return labels_; }
  bool needs_every_sample() const override;
  std::vector<Remarks> take_remarks(std::span<const std::int64_t> indices) const override;

  /// The numbers of the two classes in the full dataset, which has pair_of() classes.
  const std::array<std::int64_t, 2>& pair() const { return pair_; }
  std::int64_t pair_of() const { return pair_of_; }

 private:
  std::int64_t source_index(std::int64_t index) const {
    return indices_[static_cast<std::size_t>(index)];
  }

  const std::shared_ptr<const Dataset> source_;
  const std::array<std::int64_t, 2> pair_;
  const std::int64_t batch_size_;
  std::int64_t pair_of_ = 0;
  std::vector<std::int64_t> indices_;  // in `source_`
  std::vector<std::int64_t> labels_;   // 0 or 1
};

}  // namespace stages
