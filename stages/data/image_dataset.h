#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/stage/keeper.h"
#include "stages/artifact/dataset.h"
#include "stages/data/image.h"
#include "stages/data/image_change.h"
#include "stages/data/image_list.h"
#include "stages/data/image_store.h"
#include "stages/data/normalization.h"
#include "stages/data/preprocessing.h"
#include "stages/data/transform.h"

namespace stages {

/// The subject that all images of a data set should show, if their pixels allow a check. A kind of
/// data supplies one; stages.cpp lists all.
struct ImageSubject {
  std::string_view name;              ///< in records: "house"
  std::string_view what;              ///< "a photograph of a house"
  bool (*looks_alike)(const Image&);  ///< does an image look like one, by a quick check;
                                      ///< thread-safe
  bool has_patients = false;          ///< file names are expected to identify the patient
};

/// Tracks which images of a data set, among those read so far, do not look like its subject. The
/// parts of a data set share one. Thread-safe.
class SubjectWatch {
 public:
  explicit SubjectWatch(const ImageSubject& subject) : subject_(subject) {}

  /// Checks a decoded image, unless it has been seen before. Returns true if it does not look like
  /// the subject.
  bool see(Part part, std::int64_t index, const Image& picture);
  /// Records the verdict of an earlier run on an image.
  void note(Part part, std::int64_t index, bool is_unlike);

  enum class Seen { kNothingWrong, kUnlike, kReportedUnlike };
  /// The state of an image: kNothingWrong before it is read. From then on an unlike image counts as
  /// reported.
  Seen report(Part part, std::int64_t index);

 private:
  using Key = std::pair<Part, std::int64_t>;

  const ImageSubject& subject_;
  std::mutex mutex_;
  std::map<Key, Seen> seen_;
};

enum class Decode { kExact, kFast };
enum class OnCorrupt { kStop, kSkip };

/// Options for turning the files of a list into tensors.
struct ImageDatasetOptions {
  Decode decode = Decode::kExact;
  int image_size = 224;
  ResizeOptions resize;
  AugmentOptions augment;  ///< for training
  ChangeOrder change_order = ChangeOrder::kColoursFirst;
  Preprocessing preprocessing;  ///< of every part; needs Decode::kExact
  const ImageSubject* subject =
      nullptr;  ///< images that look like something else are reported; null: no check
  std::array<double, 3> mean{}, standard_deviation{1, 1, 1};
  OnCorrupt on_corrupt = OnCorrupt::kStop;
  LoaderOptions loader;
  std::string stage = {};  ///< the stage they belong to, "/data", which is named for an unreadable
                           ///< image; empty: the stage that reads it
  /// Called with each decoded image, before anything is done to it, by the thread that decodes; may
  /// be empty.
  std::function<void(std::int64_t index, const Image&)> look = {};
  std::shared_ptr<SubjectWatch> watch =
      {};  ///< shared by the parts, if there is a subject; null: none
  std::shared_ptr<ImageStore> store =
      {};  ///< for images that do not fit their caches, cut to size; null: none
};

/// Does every read of an image take the same cut, in training if `trains`, before any random
/// change?
bool has_one_cut(const ImageDatasetOptions& options, bool trains);

/// The bytes of a cache that holds all images of a part, in the form that is reused. If that is the
/// whole image, the size is estimated from the headers of some.
std::int64_t bytes_to_keep(const ImageList& list, Part part, const ImageDatasetOptions& options,
                           bool trains);

/// One part of a list of images: "image" float32 (3, image_size, image_size), normalised, and
/// "label" int64. If the list has captions, also "caption" int64: in training, one of those that
/// the templates make for the image, otherwise the first. If an image has a box, only the pixels in
/// it are used. A sample is a function of its index alone; in for_training(), where augmentation
/// and caption are drawn anew, of (seed, epoch, index).
class ImageDataset : public Dataset,
                     public FilesOnDisk,
                     public RemarkingDataset,
                     public AugmentedDataset,
                     public runner::Keeper {
 public:
  /// `cache` belongs to this part alone, and may be null.
  ImageDataset(std::shared_ptr<const ImageList> list, Part part, ImageDatasetOptions options,
               std::uint64_t seed, std::shared_ptr<ImageCache> cache);

  DatasetDescription describe() const override;
  /// Throws runner::StageError with the file's name and the cause; nullopt if such files are
  /// skipped.
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override { return file(index).name; }
  LoaderOptions loader() const override { return options_.loader; }
  std::shared_ptr<const Dataset> for_training() const override;
  std::vector<std::int64_t> labels() const override;
  std::vector<std::int64_t> captions() const override;
  std::vector<std::vector<std::int64_t>> captions_of_classes() const override;
  bool has_remarks() const override { return options_.watch != nullptr; }
  Remarks take_remarks(std::span<const std::int64_t> indices) const override;
  std::int64_t could_keep() const override { return cache_ ? cache_->most_bytes() : 0; }
  void allow(const runner::Allowance& allowance) const override;
  std::string kept_elsewhere() const override;

  std::filesystem::path root() const override { return list_->root; }
  const std::vector<ImageFile>& files() const { return (*list_)[part_]; }
  Part part() const { return part_; }
  const ImageDatasetOptions& options() const { return options_; }

 private:
  const ImageFile& file(std::int64_t index) const {
    return (*list_)[part_].at(static_cast<std::size_t>(index));
  }
  bool has_captions() const { return !list_->captions.texts.empty(); }
  /// By each template.
  const std::vector<std::int64_t>& captions_of(const ImageFile& file) const {
    return list_->captions.of.at(static_cast<std::size_t>(file.facts));
  }
  std::int64_t caption(std::int64_t epoch, std::int64_t index) const;
  /// How an image becomes a sample.
  struct Drawn {
    Cut cut;
    std::optional<ImageChange> change;  ///< without one the cut may still be mirrored
  };
  /// One use of an image.
  struct Use {
    std::int64_t epoch, index;
  };
  /// Writes an image cut to size as numbers; in training, changed by FinalAugment.
  void write(const Image& image, bool mirrored, Use use, const at::Tensor& pixels) const;
  Drawn drawn(const ImageHeader& header, std::int64_t epoch, std::int64_t index) const;
  /// Applies the change and `cut` to `image`.
  std::shared_ptr<const Image> made(std::shared_ptr<const Image> image, const Cut& cut,
                                    const std::optional<ImageChange>& change) const;
  /// The image cut to size; sets `mirrored` if it is still to be mirrored.
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
