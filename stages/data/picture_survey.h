#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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
  std::array<std::vector<std::int64_t>, kSplitParts> counts;  ///< of each class; empty: there is no such part
  std::int64_t bytes = 0;                                     ///< of all files
  /// Of the pictures that can be read, as they are to be seen: the smallest, the middle one and the largest.
  std::array<int, 3> widths{}, heights{};
  std::vector<Unreadable> unreadable;
  std::vector<Group> identical;            ///< files that are the same byte for byte
  std::vector<Group> alike;                ///< pictures that look the same, of at least two different files
  std::int64_t patients = 0;               ///< that are known
  const ImageSubject* subject = nullptr;   ///< of the data; null: none
  std::int64_t without_patient = 0;        ///< of pictures that are to tell the patient, those whose names do not
  std::vector<std::string> shared;         ///< patients with pictures in two parts
  std::vector<SurveyedPicture> strangers;  ///< that do not look like the subject of their data
};

/// Is it in two parts?
bool is_across(const PictureSurvey::Group& group);

/// How a survey is made.
struct SurveyOptions {
  /// By which the hashes (picture_hash.h) of pictures that look the same may differ, of 256. What is said to be the
  /// same also has thumbnails that differ by 1.5 levels of grey at most on the average: drawn retinas that are saved
  /// again differ by 0.7 at most, and two of them by 2.2 at least.
  int most_bits = 20;
  int threads = 1;
  std::function<void(std::int64_t done, std::int64_t all)> progress = {};  ///< called by the caller's thread
  std::function<bool()> cancelled = {};                                    ///< throws runner::Cancelled where true
};

/// Reads every picture of `parts`, each of another part, once. A JPEG is decoded at an eighth of its size where that is
/// enough to see what it shows: all of its bytes are read, so damage is found. Of each picture less than a kilobyte is
/// kept. Everything is in the order of the parts.
PictureSurvey survey_pictures(const std::vector<std::shared_ptr<const ImageDataset>>& parts,
                              const SurveyOptions& options);

}  // namespace stages
