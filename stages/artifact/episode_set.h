#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"

namespace stages {

/// What an episode is made of.
struct EpisodeShape {
  std::int64_t ways = 5;      ///< classes
  std::int64_t shots = 5;     ///< support samples of each class
  std::int64_t queries = 16;  ///< query samples of each class

  std::int64_t per_class() const { return shots + queries; }
  std::int64_t supports() const { return ways * shots; }
  std::int64_t samples() const { return ways * per_class(); }
  bool operator==(const EpisodeShape&) const = default;
};

/// The shape of the episodes that `data` describes; nullopt where its samples are no episodes.
std::optional<EpisodeShape> episode_shape(const DatasetDescription& data);

/// Episodes over the labelled samples of a dataset. A sample of this set is an episode, a function
/// of (seed, epoch, index): some classes, drawn without repetition, and of each of them some
/// samples, drawn without repetition:
///
///   "image"    (ways * (shots + queries), 3, size, size)  first the supports, class by class, then
///   the queries; or
///              whatever other tensors the samples have, likewise, but for captions
///   "support"  (ways, shots) int64: the class of each support in the source
///   "label"    (ways * queries) int64: the place of each query's class in the episode
///
/// What no sample can be read of is replaced by the next of its class. Within an epoch a sample is
/// augmented anew in each episode.
class EpisodeSet final : public Dataset {
 public:
  struct Options {
    EpisodeShape shape;
    std::int64_t episodes = 1;  ///< of an epoch
    std::uint64_t seed = 0;
    bool draws_anew = false;  ///< in each epoch; otherwise all epochs have the same episodes
  };
  /// Throws runner::StageError where `source` does not say the labels of its samples, has fewer
  /// classes than an episode or a class with too few samples, of which it names ten at most. `part`
  /// is how messages call it, "the training data".
  EpisodeSet(std::shared_ptr<const Dataset> source, Options options, const std::string& part);

  DatasetDescription describe() const override { return description_; }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  /// "episode 12".
  std::string sample_name(std::int64_t index) const override;
  LoaderOptions loader() const override { return source_->loader(); }
  runner::HeldMemory held() const override { return source_->held(); }
  SampleOrder epoch_order(std::uint64_t /*seed*/, std::int64_t /*epoch*/) const override {
    return sequential_order(options_.episodes);
  }

  /// The labels in the source of the classes of an episode, in its order.
  std::vector<std::int64_t> classes(std::int64_t epoch, std::int64_t index) const;
  /// The same text for two sets of the same episodes, whoever asks: a hash of all that a draw
  /// depends on.
  std::string fingerprint() const;

 private:
  /// The key of all that is drawn for an episode.
  std::uint64_t key(std::int64_t epoch, std::int64_t index) const;
  std::vector<std::size_t> draw_classes(std::uint64_t key) const;

  const std::shared_ptr<const Dataset> source_;
  const Options options_;
  const DatasetDescription description_;
  std::vector<std::int64_t> labels_;                // of the classes that have samples, ascending
  std::vector<std::vector<std::int64_t>> samples_;  // of each of them, as the source counts them
};

}  // namespace stages
