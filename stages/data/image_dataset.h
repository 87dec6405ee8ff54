#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/stage/keeper.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/grouped_samples.h"
#include "stages/artifact/label_sets.h"
#include "stages/artifact/targets.h"
#include "stages/data/image.h"
#include "stages/data/image_change.h"
#include "stages/data/image_list.h"
#include "stages/data/image_store.h"
#include "stages/data/normalization.h"
#include "stages/data/preprocessing.h"
#include "stages/data/subject_watch.h"
#include "stages/data/transform.h"

namespace stages {

enum class Decode { kExact, kFast };
enum class OnCorrupt { kStop, kSkip };

/// Options for turning the files of a list into tensors.
struct ImageDatasetOptions {
  Decode decode = Decode::kExact;
  int image_size = 224;
  ResizeOptions resize;
  AugmentOptions augment;  ///< for training only
  ChangeOrder change_order = ChangeOrder::kColorsFirst;
  Preprocessing preprocessing;  ///< applied to every part; requires Decode::kExact
  /// Images that do not look like the subject are reported; null: no check.
  const ImageSubject* subject = nullptr;
  std::array<double, 3> mean{}, standard_deviation{1, 1, 1};
  OnCorrupt on_corrupt = OnCorrupt::kStop;
  LoaderOptions loader;
  /// The stage named in errors about unreadable images, such as "/data"; empty: the stage that
  /// reads the image.
  std::string stage = {};
  /// Called with each decoded image before it is processed, in the decoding thread; may be empty.
  std::function<void(std::int64_t index, const Image&)> look = {};
  /// Shared by all parts if there is a subject; otherwise null.
  std::shared_ptr<SubjectWatch> watch = {};
  /// Records which images have 16 bits per channel, shared by all parts; null: this is not
  /// recorded.
  std::shared_ptr<ImageFindings> reduced = {};
  /// Stores cut images that do not fit in the cache; null: they are not stored.
  std::shared_ptr<ImageStore> store = {};
};

/// True if an image is cut the same way each time it is read, before any random changes: in
/// training if `trains` is true, otherwise in evaluation.
bool has_one_cut(const ImageDatasetOptions& options, bool trains);

/// Returns the number of bytes needed to cache all images of a part in the form in which they are
/// reused. If whole images are cached, this is an estimate based on the headers of a few images.
std::int64_t bytes_to_keep(const ImageList& list, Part part, const ImageDatasetOptions& options,
                           bool trains);

/// The images of one part: "image" float32 (3, image_size, image_size), normalized, and "label"
/// int64, or "labels" (classes) uint8 if the list has label sets, or "target" (targets) float64 if
/// it has targets. If the list has captions, there is also "caption" int64: a random caption of the
/// image in training, otherwise its first. If an image has a box, only the pixels in it are used. A
/// sample depends only on its index; in the dataset returned by for_training(), augmentation and
/// caption are drawn at random, and a sample depends on (seed, epoch, index).
class ImageDataset : public Dataset,
                     public FilesOnDisk,
                     public ShownAsImages,
                     public GroupedSamples,
                     public RemarkingDataset,
                     public AugmentedDataset,
                     public CountedLabels,
                     public KnownTargets,
                     public runner::Keeper {
 public:
  /// `cache` must not be shared with other parts; it may be null.
  ImageDataset(std::shared_ptr<const ImageList> list, Part part, ImageDatasetOptions options,
               std::uint64_t seed, std::shared_ptr<ImageCache> cache);

  DatasetDescription describe() const override;
  /// For an unreadable file, throws runner::StageError with the file's name and the cause, or
  /// returns nullopt if such files are skipped.
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override { return file(index).name; }
  std::string group_of(std::int64_t index) const override { return file(index).patient; }
  LoaderOptions loader() const override { return options_.loader; }
  std::shared_ptr<const Dataset> for_training() const override;
  std::vector<std::int64_t> labels() const override;
  std::vector<std::int64_t> label_counts() const override;
  at::Tensor targets() const override;
  std::vector<std::int64_t> captions() const override;
  std::vector<std::vector<std::int64_t>> captions_of_classes() const override;
  bool needs_every_sample() const override { return options_.watch != nullptr; }
  std::vector<Remarks> take_remarks(std::span<const std::int64_t> indices) const override;
  std::int64_t could_keep() const override { return cache_ ? cache_->most_bytes() : 0; }
  void allow(const runner::Allowance& allowance) const override;
  std::string kept_elsewhere() const override;

  std::filesystem::path root() const override { return list_->root; }
  std::vector<std::uint8_t> jpeg_of(std::int64_t index, int side) const override;
  const std::vector<ImageFile>& files() const { return (*list_)[part_]; }
  Part part() const { return part_; }
  const ImageDatasetOptions& options() const { return options_; }

 private:
  const ImageFile& file(std::int64_t index) const {
    return (*list_)[part_].at(static_cast<std::size_t>(index));
  }
  runner::StageError unreadable(std::int64_t index, const ImageError& error) const;
  bool has_captions() const { return !list_->captions.texts.empty(); }
  /// The image's caption from each template.
  const std::vector<std::int64_t>& captions_of(const ImageFile& file) const {
    return list_->captions.of.at(static_cast<std::size_t>(file.facts));
  }
  /// Adds the samples in `indices` that are unexpected according to `findings` to `remarks`, and
  /// returns `remarks`.
  Remarks counted(Remarks remarks, ImageFindings& findings,
                  std::span<const std::int64_t> indices) const;
  /// Adds the image's label or labels to `sample`.
  void add_labels(const ImageFile& file, NamedTensors& sample) const;
  std::int64_t caption(std::int64_t epoch, std::int64_t index) const;
  /// How an image becomes a sample.
  struct Drawn {
    Cut cut;
    std::optional<ImageChange> change;  ///< nullopt: only the cut, which may be mirrored
  };
  /// One use of an image.
  struct Use {
    std::int64_t epoch, index;
  };
  /// Writes the normalized values of an image that has been cut to size; in training, applies
  /// FinalAugment.
  void write(const Image& image, bool mirrored, Use use, const at::Tensor& pixels) const;
  Drawn drawn(const ImageHeader& header, std::int64_t epoch, std::int64_t index) const;
  /// Applies the change and `cut` to `image`.
  std::shared_ptr<const Image> made(std::shared_ptr<const Image> image, const Cut& cut,
                                    const std::optional<ImageChange>& change) const;
  /// Returns the image cut to size. Sets `mirrored` if the caller must still mirror it.
  std::shared_ptr<const Image> read(std::int64_t epoch, std::int64_t index, bool& mirrored) const;

  std::shared_ptr<const ImageList> list_;
  Part part_;
  ImageDatasetOptions options_;
  Normalization normalization_;
  std::uint64_t seed_;
  std::shared_ptr<ImageCache> cache_;
  bool trains_ = false;
};

}  // namespace stages
