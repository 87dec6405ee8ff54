#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"

namespace stages {

/// The size of an episode.
struct EpisodeShape {
  std::int64_t ways = 5;      ///< classes
  std::int64_t shots = 5;     ///< support samples of each class
  std::int64_t queries = 16;  ///< query samples of each class

  std::int64_t per_class() const { return shots + queries; }
  std::int64_t supports() const { return ways * shots; }
  std::int64_t samples() const { return ways * per_class(); }
  bool operator==(const EpisodeShape&) const = default;
};

/// The shape of the episodes that `data` describes; nullopt if its samples are no episodes.
std::optional<EpisodeShape> episode_shape(const DatasetDescription& data);

/// Episodes over the labelled samples of a dataset. A sample of this set is an episode, a function
/// of (seed, epoch, index): some classes, and some samples of each of them, both drawn without
/// repetition:
///
///   "image"    (ways * (shots + queries), 3, size, size)  first the supports, class by class, then
///              the queries; other tensors of the samples in the same layout, but no captions
///   "support"  (ways, shots) int64: the class of each support in the source
///   "label"    (ways * queries) int64: the index of each query's class within the episode
///
/// A sample that cannot be read is replaced by the next one of its class. Within an epoch a sample
/// is augmented anew in each episode.
/// augmented anew in each episode.
class EpisodeSet final : public Dataset {
 public:
  struct Options {
    EpisodeShape shape;
    std::int64_t episodes = 1;  ///< per epoch
    std::uint64_t seed = 0;
    bool draws_anew = false;  ///< draws new episodes in each epoch; otherwise all epochs have the
                              ///< same ones
  };
  /// Throws runner::StageError if `source` does not give the labels of its samples, has fewer
  /// classes than an episode, or has classes with too few samples, of which the message names at
  /// most ten. `part` is the name for messages: "the training data".
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

  /// The source labels of an episode's classes, in the episode's order.
  std::vector<std::int64_t> classes(std::int64_t epoch, std::int64_t index) const;
  /// Equal for two sets with the same episodes, in any process: a hash of everything that a draw
  /// depends on.
  std::string fingerprint() const;

 private:
  /// The random key for everything that is drawn for an episode.
  std::uint64_t key(std::int64_t epoch, std::int64_t index) const;
  std::vector<std::size_t> draw_classes(std::uint64_t key) const;

  const std::shared_ptr<const Dataset> source_;
  const Options options_;
  const DatasetDescription description_;
  std::vector<std::int64_t> labels_;                // of the classes that have samples, ascending
  std::vector<std::vector<std::int64_t>> samples_;  // for each of them, its sample indices in the
                                                    // source
};

}  // namespace stages
