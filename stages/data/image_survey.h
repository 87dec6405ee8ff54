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

/// An image of a dataset.
struct SurveyedImage {
  Part part = Part::kTrain;
  std::string file;  ///< relative to the dataset's root
  std::int64_t label = 0;
  /// Identifies its label set, if an image can have any number of labels.
  std::int64_t label_set = 0;
};

/// Properties of a dataset's images, determined without training.
struct ImageSurvey {
  struct Unreadable {
    SurveyedImage picture;
    std::string why;
  };
  using Group = std::vector<SurveyedImage>;

  std::vector<std::string> classes;
  std::array<std::vector<std::int64_t>, kSplitParts> counts;  ///< by class; empty: no such part
  std::array<std::int64_t, kSplitParts> images{};             ///< by part
  std::int64_t bytes = 0;                                     ///< of all files
  /// The smallest, median and largest width and height of the readable images, after applying
  /// their EXIF orientation.
  std::array<int, 3> widths{}, heights{};
  std::vector<Unreadable> unreadable;
  std::vector<Group> identical;  ///< groups of identical files
  /// Groups of images that look the same, with at least two different files each.
  std::vector<Group> alike;
  std::int64_t patients = 0;              ///< number of known patients
  const ImageSubject* subject = nullptr;  ///< of the dataset; null: none
  /// Number of file names that should identify a patient but do not.
  std::int64_t without_patient = 0;
  std::vector<std::string> shared;     ///< patients with images in more than one part
  std::vector<SurveyedImage> unlike;   ///< images that do not look like the subject of the dataset
  std::vector<SurveyedImage> reduced;  ///< images with 16 bits per channel (has_16_bits())
};

/// True if the group has images from different parts.
bool is_across(const ImageSurvey::Group& group);

/// Options for a survey.
struct SurveyOptions {
  /// Images look the same if their hashes (image_hash()) differ in at most this many of 256 bits,
  /// and their thumbnails by at most 1.5 gray levels on average. In measurements on synthetic
  /// images, saving an image again changed its thumbnail by at most 0.7 levels, while different
  /// images differed by at least 2.2.
  int most_bits = 20;
  int threads = 1;
  std::function<void(std::int64_t done, std::int64_t all)> progress =
      {};                               ///< called in the calling thread
  std::function<bool()> canceled = {};  ///< return true to throw runner::Canceled
};

/// Reads every image in `parts` once; no two of `parts` are the same part. A JPEG is decoded at an
/// eighth of its size if that is enough; all its bytes are still read, so damage is detected. Uses
/// less than a kilobyte of memory per image. All results are in the order of `parts`.
ImageSurvey survey_images(const std::vector<std::shared_ptr<const ImageDataset>>& parts,
                          const SurveyOptions& options);

/// A coarse view of an image: 16 rows of 17 gray cells. It hardly changes when the image is saved
/// again at a different size or quality.
using Thumbnail = std::array<std::uint8_t, std::size_t{17} * 16>;

Thumbnail thumbnail(const Image& image);

/// Returns the mean difference in gray level between the corresponding cells of two thumbnails.
double mean_difference(const Thumbnail& one, const Thumbnail& other);

/// A 256-bit hash of a thumbnail, for finding similar ones.
using ImageHash = std::array<std::uint64_t, 4>;

/// Returns the difference hash (Krawetz, "Kind of like that", 2013): a bit is set if a cell is
/// brighter than its left neighbor by more than the noise of a black border.
ImageHash image_hash(const Thumbnail& seen);

/// Returns the number of bits that differ.
int distance(const ImageHash& one, const ImageHash& other);

/// Returns groups of two or more indices into `hashes`, ordered by their first members. The members
/// of a group are connected by pairs of hashes that are at most `most` bits apart and that
/// `confirm` accepts. No pair is missed: two hashes that differ in at most `most` bits agree in at
/// least one of `most` + 1 segments, so only hashes with an equal segment are compared. When
/// several hashes are equal, only the first is compared with others. `look` is called periodically,
/// and may throw.
std::vector<std::vector<std::size_t>> alike(
    std::span<const ImageHash> hashes, int most,
    const std::function<bool(std::size_t, std::size_t)>& confirm,
    const std::function<void()>& look = {});

}  // namespace stages
