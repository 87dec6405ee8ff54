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
#include "stages/random/random.h"
#include "stages/tensor/named_tensors.h"

namespace runner {
class RunContext;
}

namespace stages {

/// The order in which a pass visits the samples of a dataset. A value type with random access.
class SampleOrder {
 public:
  /// The indices in the listed order.
  SampleOrder(std::vector<std::int64_t> indices) : order_(std::move(indices)) {}
  SampleOrder(Permutation permutation) : order_(permutation) {}
  /// 0 … size-1; takes no memory.
  static SampleOrder sequential(std::int64_t size) { return SampleOrder(Sequence{size}); }

  std::int64_t size() const;
  /// `place` is in 0 … size-1.
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

/// Up to this many samples a shuffled order is stored as a list (80 MB).
inline constexpr std::int64_t kLongestListedOrder = 10'000'000;

/// 0 … size-1, shuffled as a function of (seed, epoch) alone. Up to kLongestListedOrder samples the
/// list is shuffled, so every order is equally likely. Above that it is a Permutation, which takes
/// no memory whatever the size.
SampleOrder shuffled_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

/// 0 … size-1.
SampleOrder sequential_order(std::int64_t size);

/// Name, shape (without the batch's dimension) and type of one tensor of a sample.
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  at::ScalarType dtype;
};

/// Describes a dataset from metadata only: no file is decoded for it.
struct DatasetDescription {
  std::int64_t size = 0;
  std::vector<TensorSpec>
      tensors;  ///< of one sample, e.g. {"image", {3, 96, 96}, float}, {"label", {}, int64}
  std::vector<std::string> classes;  ///< class names in label order; empty if there are no labels
  std::string transform =
      {};  ///< JSON: how a file becomes the tensors, without augmentation; empty: not expressible
  bool augmented = false;  ///< a sample depends on the epoch
  std::vector<std::string> captions =
      {};  ///< the distinct captions that samples may have, in a fixed order; a sample's "caption"
           ///< (int64 {}) is an index into this list; empty: no captions
  std::vector<std::string> class_words =
      {};  ///< the class names as used in texts such as captions; empty: `classes`
  /// Above 0: the two classes are a pair out of this many, and a single logit, for the second
  /// class, separates them. Checkpoints store this, as they store the classes.
  std::int64_t pair_of = 0;
  /// For features: the dataset they were computed from. Models are built for that dataset, and
  /// checkpoints store it.
  std::shared_ptr<const DatasetDescription> source = {};
};

/// The name of each class as used in texts.
inline const std::vector<std::string>& words_of(const DatasetDescription& data) {
  return data.class_words.empty() ? data.classes : data.class_words;
}

/// The dataset from which features were computed; `data` itself if it holds no features.
inline const DatasetDescription& source_of(const DatasetDescription& data) {
  return data.source ? *data.source : data;
}

/// The number of logits of a classifier for such data: one per class, or one for a pair.
inline std::int64_t logits_for(const DatasetDescription& data) {
  return data.pair_of > 0 ? 1 : static_cast<std::int64_t>(data.classes.size());
}

/// Options for reading samples ahead. None of them changes a bit of the data that is read.
struct LoaderOptions {
  std::int64_t workers = 0;   ///< threads; 0: the calling thread
  std::int64_t prefetch = 2;  ///< batches held ready
  bool pinned = false;        ///< page-locked memory, for copies to a GPU
  bool drop_last = false;     ///< drop an incomplete last batch of an epoch in training
};

/// A finite set of samples, indexable and stateless: a sample is a function of (seed, epoch,
/// index).
class Dataset : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kDataset;
  runner::ArtifactType type() const final { return kType; }

  virtual DatasetDescription describe() const = 0;
  /// The tensors of sample `index`. Thread-safe. Throws runner::StageError for an unreadable
  /// sample; returns nullopt if the recipe says to skip it. Allocates no tensor memory other than
  /// the returned tensors or, for an episode, one of its images: a plan counts that much for each
  /// reading thread (add_read_ahead()).
  virtual std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const = 0;
  /// For messages and records, for example the file below the root.
  virtual std::string sample_name(std::int64_t index) const = 0;
  virtual LoaderOptions loader() const = 0;

  /// The label of each sample, in order, if known without reading the samples; else empty.
  virtual std::vector<std::int64_t> labels() const { return {}; }
  /// The caption that evaluation uses for each sample, in order; empty: none.
  virtual std::vector<std::int64_t> captions() const { return {}; }
  /// For each class, the captions that evaluation uses for its samples in any part of the data:
  /// each once, ascending. Empty: no captions.
  virtual std::vector<std::vector<std::int64_t>> captions_of_classes() const { return {}; }
  /// The order in which training visits the samples in an epoch.
  virtual SampleOrder epoch_order(std::uint64_t seed, std::int64_t epoch) const {
    return shuffled_order(describe().size, seed, epoch);
  }
};

/// A Dataset that checks its samples as they are read and remarks on unexpected ones.
class RemarkingDataset {
 public:
  virtual ~RemarkingDataset() = default;

  /// The remarks on samples that have been read.
  struct Remarks {
    std::int64_t count = 0;               ///< number of samples with a remark
    std::vector<std::string> unreported;  ///< names that no earlier call has returned
    std::string
        verdict;         ///< what is wrong with each: "not look like a house", after "does" or "do"
    std::string metric;  ///< the metric that counts them: "data/strangers"
  };
  /// False: it has no remarks on any sample.
  virtual bool has_remarks() const = 0;
  /// Remarks on the samples `indices`. Thread-safe.
  virtual Remarks take_remarks(std::span<const std::int64_t> indices) const = 0;
};

/// Reports in one line the unreported remarks on `datasets`, all samples of which have been read.
/// Counts all remarks in their metric, if there are any. Null datasets and those without remarks
/// are ignored. Reports nothing in a smoke run.
void report_remarks(std::initializer_list<const Dataset*> datasets, std::int64_t step,
                    runner::RunContext& context);

/// A dataset that gives training different samples, augmented anew in each epoch. It is also a
/// Dataset, whose own samples are the same in every epoch.
class AugmentedDataset {
 public:
  virtual ~AugmentedDataset() = default;
  /// The same samples, as training sees them.
  virtual std::shared_ptr<const Dataset> for_training() const = 0;
};

/// The dataset that training reads for `data`.
inline std::shared_ptr<const Dataset> as_trained(const std::shared_ptr<const Dataset>& data) {
  const auto* augmented = dynamic_cast<const AugmentedDataset*>(data.get());
  return augmented ? augmented->for_training() : data;
}

/// Describes the training data for the metadata of a weights file: "classes", "tensors" and
/// "transform", for a pair "pair_of", and "class_words" if texts name classes differently; each as
/// JSON. The dataset's size is not included.
std::map<std::string, std::string> describe_data(const DatasetDescription& data);

/// Reads what describe_data() wrote, from any source; other entries may be present. Throws
/// std::runtime_error with the fault in half a sentence: "its 'tensors' is not a list". The
/// transform is passed on unparsed.
DatasetDescription described_data(const std::map<std::string, std::string>& about);

/// A dataset whose samples are files. It is also a Dataset.
class FilesOnDisk {
 public:
  virtual ~FilesOnDisk() = default;
  /// The folder that Dataset::sample_name() is relative to; empty: the samples are not files after
  /// all.
  virtual std::filesystem::path root() const = 0;
};

}  // namespace stages
