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
#include "stages/data/image_list.h"
#include "stages/data/normalization.h"
#include "stages/data/picture_change.h"
#include "stages/data/picture_store.h"
#include "stages/data/preprocessing.h"
#include "stages/data/transform.h"

namespace stages {

/// What all images of a data set are to show, where their pixels tell. A kind of data brings one;
/// stages.cpp lists all.
struct ImageSubject {
  std::string_view name;              ///< in records: "retina"
  std::string_view what;              ///< "a photograph of a retina"
  bool (*looks_alike)(const Image&);  ///< does an image look like one, at a glance; thread-safe
  bool has_patients = false;          ///< the names of files are to tell the patient
};

/// Knows which pictures of a data set do not look like its subject, as far as they have been read.
/// The parts of a data set share one. Thread-safe.
class SubjectWatch {
 public:
  explicit SubjectWatch(const ImageSubject& subject) : subject_(subject) {}

  /// Looks at a picture as it was decoded, unless it has been seen before. Is it a stranger?
  bool see(Part part, std::int64_t index, const Image& picture);
  /// The same of a picture that was looked at by an earlier run.
  void note(Part part, std::int64_t index, bool is_unlike);

  enum class Seen { kNothingWrong, kUnlike, kReportedUnlike };
  /// What is known of a picture, which is kNothingWrong before it is read; a stranger is told from
  /// then on.
  Seen report(Part part, std::int64_t index);

 private:
  using Key = std::pair<Part, std::int64_t>;

  const ImageSubject& subject_;
  std::mutex mutex_;
  std::map<Key, Seen> seen_;
};

enum class Decode { kExact, kFast };
enum class OnCorrupt { kStop, kSkip };

/// How the files of a list become tensors.
struct ImageDatasetOptions {
  Decode decode = Decode::kExact;
  int image_size = 224;
  ResizeOptions resize;
  AugmentOptions augment;  ///< for training
  ChangeOrder change_order = ChangeOrder::kColoursFirst;
  Preprocessing preprocessing;  ///< of every part; needs Decode::kExact
  const ImageSubject* subject =
      nullptr;  ///< a picture that looks like another thing is worth a word; null: any
  std::array<double, 3> mean{}, standard_deviation{1, 1, 1};
  OnCorrupt on_corrupt = OnCorrupt::kStop;
  LoaderOptions loader;
  std::string stage = {};  ///< whose they are, "/data": a picture that cannot be read is blamed on
                           ///< it; empty: on its reader
  /// Called with each picture that is decoded, before anything is done to it, by whichever thread
  /// decodes; may be empty.
  std::function<void(std::int64_t index, const Image&)> look = {};
  std::shared_ptr<SubjectWatch> watch =
      {};  ///< shared by the parts, where there is a subject; null: none
  std::shared_ptr<PictureStore> store =
      {};  ///< of what their caches have no room for, cut to size; null: none
};

/// Is the same cut taken of a picture whenever it is read, for training if `trains`, before
/// anything is drawn that changes it?
bool has_one_cut(const ImageDatasetOptions& options, bool trains);

/// The bytes of a cache that holds all pictures of a part, in the form in which they are read
/// again. Where that is the whole picture, it is judged by the headers of some.
std::int64_t bytes_to_keep(const ImageList& list, Part part, const ImageDatasetOptions& options,
                           bool trains);

/// One part of a list of images: "image" float32 (3, image_size, image_size), normalised, and
/// "label" int64. Where the list has captions, also "caption" int64: in training, one of those that
/// the templates make of the picture, otherwise the first. Of a picture with a box only what lies
/// in the box is seen. A sample is a function of its index alone; for_training(), augmented and
/// captioned anew, of (seed, epoch, index).
class ImageDataset : public Dataset,
                     public FilesOnDisk,
                     public RemarkingDataset,
                     public AugmentedDataset,
                     public runner::Keeper {
 public:
  /// `cache` is of this part alone, and may be null.
  ImageDataset(std::shared_ptr<const ImageList> list, Part part, ImageDatasetOptions options,
               std::uint64_t seed, std::shared_ptr<ImageCache> cache);

  DatasetDescription describe() const override;
  /// Throws runner::StageError with the file's name and the cause; nullopt where such files are
  /// skipped.
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override { return file(index).name; }
  LoaderOptions loader() const override { return options_.loader; }
  std::shared_ptr<const Dataset> for_training() const override;
  std::vector<std::int64_t> labels() const override;
  std::vector<std::int64_t> captions() const override;
  std::vector<std::vector<std::int64_t>> captions_of_classes() const override;
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
  /// How a picture becomes a sample.
  struct Drawn {
    Cut cut;
    std::optional<PictureChange> change;  ///< without one the cut may still be mirrored
  };
  Drawn drawn(const ImageHeader& header, std::int64_t epoch, std::int64_t index) const;
  /// `image`, of which `cut` is to be taken, changed and cut.
  std::shared_ptr<const Image> made(std::shared_ptr<const Image> image, const Cut& cut,
                                    const std::optional<PictureChange>& change) const;
  /// The picture cut to size, and whether it is still to be mirrored.
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
