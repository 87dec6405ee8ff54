#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "stages/data/image.h"
#include "stages/data/image_list.h"

namespace stages {

/// The subject that all images of a dataset should show, and a check for it. A data kind may
/// supply one; stages.cpp lists them all.
struct ImageSubject {
  std::string_view name;  ///< in records: "house"
  std::string_view what;  ///< "a photograph of a house"
  /// Quickly checks whether an image looks like the subject; thread-safe.
  bool (*looks_alike)(const Image&);
  bool has_patients = false;  ///< file names should identify the patient
};

/// Tracks which of the images read so far are unexpected in some way, and which of these have been
/// reported. The parts of a dataset share one. Thread-safe.
class ImageFindings {
 public:
  /// Records whether an image that has been read is unexpected; only the first call for it counts.
  void note(Part part, std::int64_t index, bool is_unexpected);
  /// Returns whether an image is unexpected; nullopt if it has not been read.
  std::optional<bool> known(Part part, std::int64_t index) const;

  enum class Seen { kNothingWrong, kUnexpected, kReported };
  /// Returns the state of an image: kNothingWrong if it is as expected or has not been read;
  /// otherwise kUnexpected on the first call, and kReported on later calls.
  Seen report(Part part, std::int64_t index);

 private:
  using Key = std::pair<Part, std::int64_t>;

  mutable std::mutex mutex_;
  std::map<Key, Seen> seen_;
};

/// Tracks which of the images read so far do not look like the subject of their dataset.
/// Thread-safe.
class SubjectWatch {
 public:
  explicit SubjectWatch(const ImageSubject& subject) : subject_(subject) {}

  /// Checks a decoded image unless it has already been checked. Returns true if the image does not
  /// look like the subject.
  bool see(Part part, std::int64_t index, const Image& picture);
  /// Returns the findings of this run, and of earlier runs for images that are not decoded again.
  ImageFindings& findings() { return findings_; }

 private:
  const ImageSubject& subject_;
  ImageFindings findings_;
};

}  // namespace stages
