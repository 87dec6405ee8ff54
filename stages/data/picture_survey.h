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

/// A picture of a data set.
struct SurveyedPicture {
  Part part = Part::kTrain;
  std::string file;  ///< below its root
  std::int64_t label = 0;
};

/// What the pictures of a data set are, without anybody having learned from them.
struct PictureSurvey {
  struct Unreadable {
    SurveyedPicture picture;
    std::string why;
  };
  using Group = std::vector<SurveyedPicture>;

  std::vector<std::string> classes;
  std::array<std::vector<std::int64_t>, kSplitParts>
      counts;              ///< of each class; empty: there is no such part
  std::int64_t bytes = 0;  ///< of all files
  /// Of the pictures that can be read, as they are to be seen: the smallest, the middle one and the
  /// largest.
  std::array<int, 3> widths{}, heights{};
  std::vector<Unreadable> unreadable;
  std::vector<Group> identical;  ///< files that are the same byte for byte
  std::vector<Group> alike;      ///< pictures that look the same, of at least two different files
  std::int64_t patients = 0;     ///< that are known
  const ImageSubject* subject = nullptr;  ///< of the data; null: none
  std::int64_t without_patient =
      0;  ///< of pictures that are to tell the patient, those whose names do not
  std::vector<std::string> shared;      ///< patients with pictures in two parts
  std::vector<SurveyedPicture> unlike;  ///< that do not look like the subject of their data
};

/// Is it in two parts?
bool is_across(const PictureSurvey::Group& group);

/// How a survey is made.
struct SurveyOptions {
  /// By which the hashes (picture_hash.h) of pictures that look the same may differ, of 256. What
  /// is said to be the same also has thumbnails that differ by 1.5 levels of grey at most on the
  /// average: drawn retinas that are saved again differ by 0.7 at most, and two of them by 2.2 at
  /// least.
  int most_bits = 20;
  int threads = 1;
  std::function<void(std::int64_t done, std::int64_t all)> progress =
      {};                                ///< called by the caller's thread
  std::function<bool()> cancelled = {};  ///< throws runner::Cancelled where true
};

/// Reads every picture of `parts`, each of another part, once. A JPEG is decoded at an eighth of
/// its size where that is enough to see what it shows: all of its bytes are read, so damage is
/// found. Of each picture less than a kilobyte is kept. Everything is in the order of the parts.
PictureSurvey survey_pictures(const std::vector<std::shared_ptr<const ImageDataset>>& parts,
                              const SurveyOptions& options);

/// What a picture looks like from afar: 16 rows of 17 grey places. A picture that was saved again,
/// at another size or quality, has almost the same.
using Thumbnail = std::array<std::uint8_t, std::size_t{17} * 16>;

Thumbnail thumbnail(const Image& image);

/// By how much grey the places of two differ, on the average.
double mean_difference(const Thumbnail& one, const Thumbnail& other);

/// 256 bits of a thumbnail by which similar ones are looked for.
using PictureHash = std::array<std::uint64_t, 4>;

/// The difference hash (Krawetz, "Kind of like that", 2013): a bit is set where a place is brighter
/// than the one to its left, by more than the noise of a black border.
PictureHash picture_hash(const Thumbnail& seen);

/// How many bits differ.
int distance(const PictureHash& one, const PictureHash& other);

/// Groups of two or more of `hashes`, by their positions, that are connected by pairs at most
/// `most` bits apart which `confirm` takes; in the order of their first members. No pair is missed:
/// two hashes that differ in `most` bits are equal in one of `most` + 1 parts, so that only those
/// with a part in common are compared. Of equal hashes only the first is compared with others.
/// `look` is called now and then, and may throw.
std::vector<std::vector<std::size_t>> alike(
    std::span<const PictureHash> hashes, int most,
    const std::function<bool(std::size_t, std::size_t)>& confirm,
    const std::function<void()>& look = {});

}  // namespace stages
