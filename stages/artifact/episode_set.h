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
  std::int64_t shots = 5;     ///< support samples per class
  std::int64_t queries = 16;  ///< query samples per class

  std::int64_t per_class() const { return shots + queries; }
  std::int64_t supports() const { return ways * shots; }
  std::int64_t all_queries() const { return ways * queries; }
  std::int64_t samples() const { return ways * per_class(); }
  bool operator==(const EpisodeShape&) const = default;
};

/// Returns the shape of the episodes that `data` describes; nullopt if its samples are not
/// episodes.
std::optional<EpisodeShape> episode_shape(const DatasetDescription& data);

/// Episodes drawn from the labeled samples of a dataset. A sample of this set is an episode, which
/// depends on (seed, epoch, index): a few classes, and a few samples of each, both drawn without
/// replacement:
///
///   "image"    (ways * (shots + queries), 3, size, size)  first the supports, class by class, then
///              the queries; other tensors of the samples in the same layout, but no captions
///   "support"  (ways, shots) int64: the class of each support in the source
///   "label"    (ways * queries) int64: the index of each query's class within the episode
///
/// An unreadable sample is replaced by the next one of its class. A sample that occurs in several
/// episodes of an epoch is augmented differently in each.
class EpisodeSet final : public Dataset {
 public:
  struct Options {
    EpisodeShape shape;
    std::int64_t episodes = 1;  ///< number of episodes per epoch
    std::uint64_t seed = 0;
    /// Draws new episodes in each epoch; otherwise the episodes are the same in all epochs.
    bool draws_anew = false;
  };
  /// Throws runner::StageError if `source` does not know the labels of its samples, or has too few
  /// classes or samples per class for an episode. The message names at most ten such classes.
  /// `part` is the name of the data in messages: "the training data".
  EpisodeSet(std::shared_ptr<const Dataset> source, Options options, const std::string& part);

  DatasetDescription describe() const override { return description_; }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  /// Returns a name such as "episode 12".
  std::string sample_name(std::int64_t index) const override;
  LoaderOptions loader() const override { return source_->loader(); }
  runner::HeldMemory held() const override { return source_->held(); }
  SampleOrder epoch_order(std::uint64_t /*seed*/, std::int64_t /*epoch*/) const override {
    return sequential_order(options_.episodes);
  }

  /// Returns the source labels of an episode's classes, in the episode's order.
  std::vector<std::int64_t> classes(std::int64_t epoch, std::int64_t index) const;
  /// Returns the indices in source() of an episode's samples, in the order of "image". Reads the
  /// samples, since unreadable ones are replaced. Throws like sample().
  std::vector<std::int64_t> source_samples(std::int64_t epoch, std::int64_t index) const;
  const Dataset& source() const { return *source_; }
  /// Returns a hash of everything that a draw depends on. Sets with the same episodes have the same
  /// hash, in any process.
  std::string fingerprint() const;

 private:
  /// Returns the seed for all random choices of an episode.
  std::uint64_t key(std::int64_t epoch, std::int64_t index) const;
  std::vector<std::size_t> draw_classes(std::uint64_t key) const;
  /// Draws an episode: sets `from`, which has one element per sample of the episode, to the
  /// samples' indices in the source.
  NamedTensors drawn(std::int64_t epoch, std::int64_t index, std::vector<std::int64_t>& from) const;

  const std::shared_ptr<const Dataset> source_;
  const Options options_;
  const DatasetDescription description_;
  std::vector<std::int64_t> labels_;  // labels with samples, ascending
  // For each of `labels_`, the indices of its samples in the source.
  std::vector<std::vector<std::int64_t>> samples_;
};

}  // namespace stages
