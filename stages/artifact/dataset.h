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
#include "stages/random/permutation.h"
#include "stages/tensor/named_tensors.h"

namespace runner {
class RunContext;
}

namespace stages {

/// Which sample of a dataset stands at which place of a pass. Values; any place may be asked for at
/// any time.
class SampleOrder {
 public:
  /// The indices as they are listed.
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

/// The most samples whose shuffled order is a list (80 MB).
inline constexpr std::int64_t kLongestListedOrder = 10'000'000;

/// 0 … size-1, shuffled as a function of (seed, epoch) alone. Every order is as likely up to
/// kLongestListedOrder samples: the list is shuffled. Beyond, it is a Permutation and takes no
/// memory, whatever the size.
SampleOrder shuffled_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

/// 0 … size-1.
SampleOrder sequential_order(std::int64_t size);

/// Name, shape (without the batch's dimension) and type of one tensor of a sample.
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  at::ScalarType dtype;
};

/// A dataset from metadata only: no file is decoded for it.
struct DatasetDescription {
  std::int64_t size = 0;
  std::vector<TensorSpec>
      tensors;  ///< of one sample, e.g. {"image", {3, 96, 96}, float}, {"label", {}, int64}
  std::vector<std::string>
      classes;  ///< names in order of their label; empty when there are no labels
  std::string transform =
      {};  ///< JSON: how a file becomes the tensors, without augmentation; empty: cannot be said
  bool augmented = false;  ///< a sample depends on the epoch
  std::vector<std::string> captions =
      {};  ///< the distinct captions that samples may have, in a fixed order; "caption"
           ///< int64 {} of a sample is a position here; empty: none
  std::vector<std::string> class_words =
      {};  ///< what texts call the classes, as captions do; empty: `classes`
  /// Above 0: the classes are two of so many, and one logit, that of the second, tells them apart.
  /// Checkpoints remember that, as they do the classes.
  std::int64_t pair_of = 0;
  /// Of features: what they were computed from. Models are built for that, and checkpoints remember
  /// that.
  std::shared_ptr<const DatasetDescription> source = {};
};

/// What texts call each class.
inline const std::vector<std::string>& words_of(const DatasetDescription& data) {
  return data.class_words.empty() ? data.classes : data.class_words;
}

/// What the samples were before their features were computed; `data` itself where they are no
/// features.
inline const DatasetDescription& source_of(const DatasetDescription& data) {
  return data.source ? *data.source : data;
}

/// How many logits a classifier has for such data: one a class, or one for a pair.
inline std::int64_t logits_for(const DatasetDescription& data) {
  return data.pair_of > 0 ? 1 : static_cast<std::int64_t>(data.classes.size());
}

/// How samples are read ahead. No option changes a bit of what is read.
struct LoaderOptions {
  std::int64_t workers = 0;   ///< threads; 0: the caller's
  std::int64_t prefetch = 2;  ///< batches held ready
  bool pinned = false;        ///< page-locked memory, for copies to a GPU
  bool drop_last = false;     ///< leave out an incomplete last batch of an epoch, in training
};

/// A finite set of samples, indexable and stateless: a sample is a function of (seed, epoch,
/// index).
class Dataset : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kDataset;
  runner::ArtifactType type() const final { return kType; }

  virtual DatasetDescription describe() const = 0;
  /// The tensors of sample `index`. Thread-safe. Throws runner::StageError for a sample that cannot
  /// be read, and returns nullopt for one that the recipe says to skip. Takes no memory of tensors
  /// besides those that it returns, or of an episode one of its images: a plan counts so much for
  /// each thread that reads (add_read_ahead()).
  virtual std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const = 0;
  /// For messages and records: the file below the root, say.
  virtual std::string sample_name(std::int64_t index) const = 0;
  virtual LoaderOptions loader() const = 0;

  /// The label of each sample, in order, where they are known without reading one; empty where they
  /// are not.
  virtual std::vector<std::int64_t> labels() const { return {}; }
  /// The caption of each sample that evaluation uses, in order; empty: none.
  virtual std::vector<std::int64_t> captions() const { return {}; }
  /// Of each class, the captions that evaluation uses of its samples, in whichever part of the data
  /// these are: each once, ascending. Empty: no captions.
  virtual std::vector<std::vector<std::int64_t>> captions_of_classes() const { return {}; }
  /// In what order a training goes through its samples in an epoch.
  virtual SampleOrder epoch_order(std::uint64_t seed, std::int64_t epoch) const {
    return shuffled_order(describe().size, seed, epoch);
  }
};

/// A Dataset that looks at its samples as they are read, and remarks on those that are not what it
/// expects.
class RemarkingDataset {
 public:
  virtual ~RemarkingDataset() = default;

  /// What is remarked on samples that have been read.
  struct Remarks {
    std::int64_t count = 0;               ///< of samples
    std::vector<std::string> unreported;  ///< the names of those that no earlier call has returned
    std::string verdict;  ///< what is wrong with each: "not look like a photograph of a retina"
    std::string metric;   ///< that counts them: "data/strangers"
  };
  /// On the samples `indices`. Thread-safe.
  virtual Remarks take_remarks(std::span<const std::int64_t> indices) const = 0;
};

/// Reports in one line the unreported remarks on `datasets`, all samples of which have been read,
/// and counts all of them in their metric, if there are any. Null datasets, and those that remark
/// on nothing, have none. Reports nothing in a smoke run.
void report_remarks(std::initializer_list<const Dataset*> datasets, std::int64_t step,
                    runner::RunContext& context);

/// A dataset of which a training sees other samples than whoever looks at it without training:
/// augmented anew in each epoch. It is one Dataset beside that, whose own samples are the same in
/// every epoch.
class AugmentedDataset {
 public:
  virtual ~AugmentedDataset() = default;
  /// The same samples as a training sees them.
  virtual std::shared_ptr<const Dataset> for_training() const = 0;
};

/// What a training reads of `data`.
inline std::shared_ptr<const Dataset> as_trained(const std::shared_ptr<const Dataset>& data) {
  const auto* augmented = dynamic_cast<const AugmentedDataset*>(data.get());
  return augmented ? augmented->for_training() : data;
}

/// What weights are to remember of the data that they were trained on, as texts for their file's
/// metadata: "classes", "tensors" and "transform", of a pair "pair_of", and "class_words" where
/// texts call classes otherwise, each JSON. The size is not among it.
std::map<std::string, std::string> describe_data(const DatasetDescription& data);

/// Reads what describe_data() wrote, beside other texts, wherever they come from. Throws
/// std::runtime_error saying what is wrong, in half a sentence: "its 'tensors' is not a list". The
/// transform is handed on unread.
DatasetDescription described_data(const std::map<std::string, std::string>& about);

/// A dataset of which each sample is a file. It is one Dataset beside that.
class FilesOnDisk {
 public:
  virtual ~FilesOnDisk() = default;
  /// The folder that Dataset::sample_name() counts from; empty: the samples are no files after all.
  virtual std::filesystem::path root() const = 0;
};

}  // namespace stages
