#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "stages/data/image.h"
#include "stages/data/image_list.h"

namespace stages {

/// The subject that all images of a data set should show, and a check for it. A data kind may
/// supply one; stages.cpp lists them all.
struct ImageSubject {
  std::string_view name;  ///< in records: "house"
  std::string_view what;  ///< "a photograph of a house"
  /// Quickly checks whether an image looks like the subject; thread-safe.
  bool (*looks_alike)(const Image&);
  bool has_patients = false;  ///< file names should identify the patient
};

/// Tracks which of the images read so far do not look like the subject of their data set. The parts
/// of a data set share one SubjectWatch. Thread-safe.
class SubjectWatch {
 public:
  explicit SubjectWatch(const ImageSubject& subject) : subject_(subject) {}

  /// Checks a decoded image unless it has already been checked. Returns true if the image does not
  /// look like the subject.
  bool see(Part part, std::int64_t index, const Image& picture);
  /// Records an earlier run's verdict on an image.
  void note(Part part, std::int64_t index, bool is_unlike);

  enum class Seen { kNothingWrong, kUnlike, kReportedUnlike };
  /// Returns the state of an image: kNothingWrong if it looks like the subject or has not been
  /// read; otherwise kUnlike on the first call, and kReportedUnlike on later calls.
  Seen report(Part part, std::int64_t index);

 private:
  using Key = std::pair<Part, std::int64_t>;

  const ImageSubject& subject_;
  std::mutex mutex_;
  std::map<Key, Seen> seen_;
};

}  // namespace stages
