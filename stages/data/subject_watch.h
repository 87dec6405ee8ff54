#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "stages/data/image.h"
#include "stages/data/image_list.h"
#include "stages/data/image_subject.h"

namespace stages {

/// Knows which pictures of a data set do not look like its subject, as far as they have been read. The parts of a data
/// set share one. Thread-safe.
class SubjectWatch {
 public:
  explicit SubjectWatch(const ImageSubject& subject) : subject_(subject) {}

  /// Looks at a picture as it was decoded, unless it has been seen before. Is it a stranger?
  bool see(Part part, std::int64_t index, const Image& picture);
  /// The same of a picture that was looked at by an earlier run.
  void note(Part part, std::int64_t index, bool is_stranger);

  enum class Seen { kNothingWrong, kStranger, kToldStranger };
  /// What is known of a picture, which is kNothingWrong before it is read; a stranger is told from then on.
  Seen tell(Part part, std::int64_t index);

 private:
  using Key = std::pair<Part, std::int64_t>;

  const ImageSubject& subject_;
  std::mutex mutex_;
  std::map<Key, Seen> seen_;
};

}  // namespace stages
