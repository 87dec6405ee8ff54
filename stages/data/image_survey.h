#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stages/data/image.h"
#include "stages/data/image_dataset.h"

namespace stages {

/// An image of a data set.
struct SurveyedImage {
  Part part = Part::kTrain;
  std::string file;  ///< relative to its root
  std::int64_t label = 0;
};

/// Properties of the images of a data set, found without training.
struct ImageSurvey {
  struct Unreadable {
    SurveyedImage picture;
    std::string why;
  };
  using Group = std::vector<SurveyedImage>;

  std::vector<std::string> classes;
  std::array<std::vector<std::int64_t>, kSplitParts>
      counts;              ///< of each class; empty: no such part
  std::int64_t bytes = 0;  ///< of all files
  /// Of the readable images, upright: the smallest, the median and the largest.
  std::array<int, 3> widths{}, heights{};
  std::vector<Unreadable> unreadable;
  std::vector<Group> identical;  ///< groups of files that are byte-for-byte equal
  std::vector<Group> alike;      ///< groups of images that look the same, from at least two
                                 ///< different files
  std::int64_t patients = 0;     ///< number of known patients
  const ImageSubject* subject = nullptr;  ///< of the data; null: none
  std::int64_t without_patient =
      0;  ///< how many file names do not identify a patient, if they should
  std::vector<std::string> shared;    ///< patients with images in two parts
  std::vector<SurveyedImage> unlike;  ///< images that do not look like the subject of their data
};

/// Does the group span two parts?
bool is_across(const ImageSurvey::Group& group);

/// Options of a survey.
struct SurveyOptions {
  /// The most bits, of 256, by which the hashes (image_hash()) of images that look the same may
  /// differ. Their thumbnails must also differ by at most 1.5 grey levels on average: drawn images
  /// that are saved again differ by at most 0.7, and two different ones by at least 2.2.
  int most_bits = 20;
  int threads = 1;
  std::function<void(std::int64_t done, std::int64_t all)> progress =
      {};                                ///< called in the caller's thread
  std::function<bool()> cancelled = {};  ///< if it returns true, runner::Cancelled is thrown
};

/// Reads every image of `parts`, each a different part, once. A JPEG is decoded at an eighth of its
/// size if that is enough; all of its bytes are read, so damage is found. Keeps less than a
/// kilobyte per image. All results are in the order of the parts.
ImageSurvey survey_images(const std::vector<std::shared_ptr<const ImageDataset>>& parts,
                          const SurveyOptions& options);

/// A coarse view of an image: 16 rows of 17 grey cells. It hardly changes if the image is saved at
/// another size or quality.
using Thumbnail = std::array<std::uint8_t, std::size_t{17} * 16>;

Thumbnail thumbnail(const Image& image);

/// The mean difference in grey between the cells of two thumbnails.
double mean_difference(const Thumbnail& one, const Thumbnail& other);

/// 256 bits of a thumbnail for finding similar ones.
using ImageHash = std::array<std::uint64_t, 4>;

/// The difference hash (Krawetz, "Kind of like that", 2013): a bit is set if a cell is brighter
/// than the one to its left, by more than the noise of a black border.
ImageHash image_hash(const Thumbnail& seen);

/// How many bits differ.
int distance(const ImageHash& one, const ImageHash& other);

/// Groups of two or more of `hashes`, by index, connected by pairs at most `most` bits apart that
/// `confirm` accepts; ordered by their first members. No pair is missed: two hashes that differ in
/// `most` bits are equal in one of `most` + 1 parts, so only hashes with an equal part are
/// compared. Of equal hashes only the first is compared with others. `look` is called from time to
/// time, and may throw.
std::vector<std::vector<std::size_t>> alike(
    std::span<const ImageHash> hashes, int most,
    const std::function<bool(std::size_t, std::size_t)>& confirm,
    const std::function<void()>& look = {});

}  // namespace stages
