#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <c10/core/ScalarType.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/ordinal_head.h"
#include "stages/random/random.h"
#include "stages/tensor/named_tensors.h"

namespace runner {
class RunContext;
}

namespace stages {

/// The order in which a pass visits the samples of a dataset; copyable, with random access.
class SampleOrder {
 public:
  /// Visits the indices in the order of the list.
  SampleOrder(std::vector<std::int64_t> indices) : order_(std::move(indices)) {}
  SampleOrder(Permutation permutation) : order_(permutation) {}
  /// Visits 0 … size-1 in order, without storing a list.
  static SampleOrder sequential(std::int64_t size) { return SampleOrder(Sequence{size}); }

  std::int64_t size() const;
  /// Returns the sample index at position `place`, 0 … size-1.
  std::int64_t operator[](std::int64_t place) const;

 private:
  struct Sequence {
    std::int64_t length;
    std::int64_t size() const { return length; }
    std::int64_t operator[](std::int64_t place) const { return place; }
  };
  explicit SampleOrder(Sequence sequence) : order_(sequence) {}

  std::variant<Sequence, std::vector<std::int64_t>, Permutation> order_;
};

/// Shuffled orders of up to this many samples are stored as lists (at most 80 MB).
inline constexpr std::int64_t kLongestListedOrder = 10'000'000;

/// Returns 0 … size-1, shuffled as a function of (seed, epoch) alone. For up to kLongestListedOrder
/// samples, a list is shuffled, so every order is equally likely. Longer orders are computed by a
/// Permutation, which stores no list.
SampleOrder shuffled_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

/// Returns the order 0 … size-1.
SampleOrder sequential_order(std::int64_t size);

/// The name, shape (without the batch dimension) and type of one tensor of a sample.
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  at::ScalarType dtype;
};

/// What a network that predicts targets needs to know about its training samples
/// (artifact/targets.h).
struct TrainedTargets {
  std::vector<double> mean, standard_deviation;  ///< one for each target; empty: unknown
  /// True if the network's outputs are (target - mean) / standard_deviation.
  bool are_standardized = false;
};

/// Describes a dataset, using only metadata: no file is decoded.
struct DatasetDescription {
  std::int64_t size = 0;
  /// The tensors of one sample, e.g. {"image", {3, 96, 96}, float}, {"label", {}, int64}.
  std::vector<TensorSpec> tensors;
  std::vector<std::string> classes;  ///< class names in label order; empty if there are no labels
  bool has_order = false;  ///< true if the classes are known to be in ascending order, like grades
  /// JSON that describes how a file is turned into the tensors, without augmentation; empty if it
  /// cannot be expressed.
  std::string transform = {};
  bool augmented = false;  ///< samples depend on the epoch
  /// The distinct captions that samples may have, in a fixed order; a sample's "caption" (int64 {})
  /// is an index into this list. Empty: no captions.
  std::vector<std::string> captions = {};
  /// The class names as used in texts such as captions. If empty, `classes` is used.
  std::vector<std::string> class_words = {};
  /// If above 0, `classes` is a class pair out of this many classes, separated by a single logit,
  /// for the second class. Checkpoints store this number along with the classes.
  std::int64_t pair_of = 0;
  /// The head of a network that learns the order of `classes`, which are in ascending order. Set by
  /// training.
  OrdinalHead ordinal = OrdinalHead::kNone;
  /// For features, the dataset from which they were computed. Models are built for that dataset,
  /// and checkpoints describe it.
  std::shared_ptr<const DatasetDescription> source = {};
  /// For a network that predicts targets, what it needs to know about the training samples. Set by
  /// training.
  TrainedTargets targets = {};
};

/// Returns the name of each class as used in texts.
inline const std::vector<std::string>& words_of(const DatasetDescription& data) {
  return data.class_words.empty() ? data.classes : data.class_words;
}

/// Returns the dataset from which features were computed; `data` itself if it has no features.
inline const DatasetDescription& source_of(const DatasetDescription& data) {
  return data.source ? *data.source : data;
}

/// Returns the number of logits of a classifier for this data: one per class, one for a class pair,
/// or one fewer than there are classes for an ordinal head.
inline std::int64_t logits_for(const DatasetDescription& data) {
  if (data.pair_of > 0) return 1;
  const auto classes = static_cast<std::int64_t>(data.classes.size());
  return data.ordinal == OrdinalHead::kNone ? classes : classes - 1;
}

/// Options for reading samples ahead. None of them changes the data.
struct LoaderOptions {
  std::int64_t workers = 0;   ///< number of threads; 0: the calling thread reads
  std::int64_t prefetch = 2;  ///< number of batches read ahead
  bool pinned = false;        ///< use page-locked memory, for copies to a GPU
  bool drop_last = false;     ///< drop an incomplete last batch of an epoch in training
};

/// A finite, indexable and stateless set of samples: a sample depends only on (seed, epoch, index).
class Dataset : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kDataset;
  runner::ArtifactType type() const final { return kType; }

  virtual DatasetDescription describe() const = 0;
  /// Returns the tensors of sample `index`. Throws runner::StageError if the sample is unreadable,
  /// or returns nullopt if the recipe skips such samples. Thread-safe. Allocates tensor memory only
  /// for the returned tensors or, for an episode, one of its images, since plans reserve only that
  /// much for each reading thread (add_read_ahead()).
  virtual std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const = 0;
  /// Returns the name of a sample for messages and records, such as its path relative to the root.
  virtual std::string sample_name(std::int64_t index) const = 0;
  virtual LoaderOptions loader() const = 0;

  /// Returns the label of each sample, in order; empty if labels are not known without reading
  /// samples.
  virtual std::vector<std::int64_t> labels() const { return {}; }
  /// Returns the caption that evaluation uses for each sample, in order, or nothing if there are no
  /// captions.
  virtual std::vector<std::int64_t> captions() const { return {}; }
  /// Returns, for each class, the captions that evaluation uses for its samples in any part of the
  /// data, in ascending order and without duplicates, or nothing if there are no captions.
  virtual std::vector<std::vector<std::int64_t>> captions_of_classes() const { return {}; }
  /// Returns the order in which training visits the samples in an epoch.
  virtual SampleOrder epoch_order(std::uint64_t seed, std::int64_t epoch) const {
    return shuffled_order(describe().size, seed, epoch);
  }
};

/// Implemented by a Dataset that checks its samples as they are read and remarks on unexpected
/// ones.
class RemarkingDataset {
 public:
  virtual ~RemarkingDataset() = default;

  /// Remarks of one kind on samples that have been read.
  struct Remarks {
    std::int64_t count = 0;                    ///< number of samples with a remark
    std::vector<std::string> unreported = {};  ///< names that were not returned by an earlier call
    /// What is unexpected about one of these samples, and about several: "does not look like a
    /// house" and "do not look like a house".
    std::string of_one, of_several;
    /// The metric that counts them, such as "data/strangers"; empty: none.
    std::string metric = {};
  };
  /// True if the remarks are complete only after all samples have been read. In a run with several
  /// ranks, the rank that reports them then reads all samples in the first epoch.
  virtual bool needs_every_sample() const = 0;
  /// Returns the remarks on the samples in `indices`, one for each kind. Thread-safe.
  virtual std::vector<Remarks> take_remarks(std::span<const std::int64_t> indices) const = 0;
};

/// Reports new remarks on `datasets` in one line for each kind, and records the total number of
/// remarks under Remarks::metric. Does nothing if there are no remarks, or in a smoke run. All
/// samples must have been read. Null pointers and datasets without remarks are ignored.
void report_remarks(std::initializer_list<const Dataset*> datasets, std::int64_t step,
                    runner::RunContext& context);

/// A dataset that augments its samples differently in each epoch of training. Used as a Dataset, it
/// returns the samples without augmentation, which are the same in every epoch.
class AugmentedDataset {
 public:
  virtual ~AugmentedDataset() = default;
  /// Returns a dataset with the same samples, augmented for training.
  virtual std::shared_ptr<const Dataset> for_training() const = 0;
};

/// Returns the dataset that training reads instead of `data`.
inline std::shared_ptr<const Dataset> as_trained(const std::shared_ptr<const Dataset>& data) {
  const auto* augmented = dynamic_cast<const AugmentedDataset*>(data.get());
  return augmented ? augmented->for_training() : data;
}

/// Describes the training data for the metadata of a weights file: "classes", "tensors" and
/// "transform", "pair_of" for a class pair, "ordinal" for an ordinal head, "class_words" if texts
/// use other class names, and "targets" for a network that predicts targets. Each entry is JSON.
/// The dataset's size is not included.
std::map<std::string, std::string> describe_data(const DatasetDescription& data);

/// Parses the output of describe_data(), which is not trusted; other entries may be present. The
/// transform is not parsed. Throws std::runtime_error with a clause that describes the error: "its
/// 'tensors' is not a list".
DatasetDescription described_data(const std::map<std::string, std::string>& about);

/// Implemented by a Dataset that can show its samples as images.
class ShownAsImages {
 public:
  virtual ~ShownAsImages() = default;
  /// Returns a JPEG file with sample `index` as the network receives it, but before normalization
  /// and at most `side` pixels wide and high. Throws runner::StageError if the sample is
  /// unreadable. Thread-safe.
  virtual std::vector<std::uint8_t> jpeg_of(std::int64_t index, int side) const = 0;
  /// False if the samples have no images after all, as with features computed from other data.
  virtual bool shows_images() const { return true; }
};

/// Returns `data` as images; null if its samples cannot be shown.
inline const ShownAsImages* shown_as_images(const Dataset& data) {
  const auto* const shown = dynamic_cast<const ShownAsImages*>(&data);
  return shown && shown->shows_images() ? shown : nullptr;
}

/// Implemented by a Dataset in which each sample is a file.
class FilesOnDisk {
 public:
  virtual ~FilesOnDisk() = default;
  /// Returns the folder to which Dataset::sample_name() is relative; empty if the samples are not
  /// files.
  virtual std::filesystem::path root() const = 0;
};

}  // namespace stages
