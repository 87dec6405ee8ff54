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

/// A sample of one of two classes, and what ranks it.
struct RankedSample {
  double score = 0;  ///< higher: more likely of the second class
  bool is_second = false;
};

/// The area under the ROC curve: how often a sample of the second class is ranked above one of the
/// first, where those of equal score count half (Mann and Whitney). nullopt where there are none of
/// either class.
std::optional<double> ranked_area(std::span<RankedSample> samples);

/// A class as a recipe names it: by its number or its name.
using ClassChoice = std::variant<std::int64_t, std::string>;

/// The number of a chosen class among `classes`. Throws runner::StageError at /classes where there
/// is none.
std::int64_t chosen_class(const ClassChoice& choice, const std::vector<std::string>& classes);

/// The samples of two classes of a dataset, in its order, labelled 0 and 1: what learns to tell
/// these two apart by one logit, that of the second.
class ClassPair final : public Dataset, public RemarkingDataset {
 public:
  /// `labels` are the numbers of the two in `source`, which differ. With a `batch_size` an epoch
  /// has a batch that a training can use: an incomplete one that is all there is stays even where
  /// the loader is to leave it out. Throws runner::StageError where `source` does not say the
  /// labels of its samples, or has none of either class. `part` is what errors call it, "validation
  /// data".
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
  Remarks take_remarks(std::span<const std::int64_t> indices) const override;

  /// The two classes by their numbers in the whole data, which has so many.
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
