#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"
#include "stages/train/training_kind.h"

namespace stages {

/// A class-balanced training set: each epoch has the same number of samples from every class, and
/// as many samples in total as the source. Each class's samples are drawn in rounds, each round in
/// a new random order. Rounds continue across epochs, so within a class, draw counts differ by at
/// most one. An epoch depends only on (seed, epoch).
///
/// A sample drawn again within an epoch gets a different index (its own plus a multiple of the
/// set's size), and thus different augmentation and dropout.
class BalancedSamples final : public Dataset, public RemarkingDataset {
 public:
  /// Throws runner::StageError if `source` does not provide sample labels.
  explicit BalancedSamples(std::shared_ptr<const Dataset> source);

  DatasetDescription describe() const override { return source_->describe(); }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override {
    return source_->sample_name(index % size_);
  }
  LoaderOptions loader() const override { return source_->loader(); }
  runner::HeldMemory held() const override { return source_->held(); }
  std::vector<std::int64_t> labels() const override { return source_->labels(); }
  std::vector<std::int64_t> captions() const override { return source_->captions(); }
  bool needs_every_sample() const override;
  /// `indices` must refer to first draws, which keep their source indices.
  std::vector<Remarks> take_remarks(std::span<const std::int64_t> indices) const override;
  SampleOrder epoch_order(std::uint64_t seed, std::int64_t epoch) const override;

  const Dataset& source() const { return *source_; }

 private:
  const std::shared_ptr<const Dataset> source_;
  const std::int64_t size_;
  std::vector<std::vector<std::int64_t>> classes_;  // samples by class, without empty classes
  std::int64_t draws_ = 1;  // upper bound on how often a sample is drawn per epoch
};

/// Returns a message saying that the option `weights` balances the classes a second time.
std::string balanced_twice(const std::string& weights);

/// Returns `data` with balanced training samples; the validation data is never balanced. For use as
/// TrainingKind::draw.
TrainingData draw_balanced(TrainingData data, std::uint64_t seed);

}  // namespace stages
