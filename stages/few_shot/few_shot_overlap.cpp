#include "stages/few_shot/few_shot_overlap.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runner/shared/text/join.h"

namespace stages {
namespace {

constexpr std::size_t kNamedShared = 10;

using FileIdentity = std::pair<dev_t, ino_t>;

/// Classes, or the files of images, that are in two parts.
class SharedThings {
 public:
  SharedThings(const char* one, const char* many) : one_(one), many_(many) {}

  void add(const std::string& name) { names_.push_back(name); }
  bool any() const { return !names_.empty(); }
  runner::Diagnostic error(Part earlier, Part later, const std::string& help) const {
    return {runner::ErrorCode::kBadAnnotations,
            {},
            "/" + std::string(name(later)),
            "train, validation and test must share nothing: " + std::string(name(earlier)) + " and " +
                std::string(name(later)) + " both have the " +
                (names_.size() == 1 ? one_ : std::to_string(names_.size()) + " " + many_) + " " +
                runner::listed(names_, kNamedShared, "'"),
            help};
  }

 private:
  std::string one_, many_;
  std::vector<std::string> names_;
};

SharedThings shared_classes(const FewShotPart& earlier, const FewShotPart& later) {
  SharedThings shared("class", "classes");
  if (!earlier.is_named || !later.is_named) return shared;
  for (const std::string& name : later.list.classes) {
    if (std::ranges::find(earlier.list.classes, name) != earlier.list.classes.end()) shared.add(name);
  }
  return shared;
}

std::map<FileIdentity, const ImageFile*> files_by_identity(const ImageList& list, Part part) {
  std::map<FileIdentity, const ImageFile*> files;
  for (const ImageFile& file : list[part]) {
    struct stat status {};
    if (::stat((list.root / file.name).c_str(), &status) == 0)
      files.emplace(FileIdentity(status.st_dev, status.st_ino), &file);
  }
  return files;
}

}  // namespace

void check_overlap(const std::array<FewShotPart, kSplitParts>& parts, runner::Diagnostics& errors) {
  constexpr std::array kParts = {Part::kTrain, Part::kValidation, Part::kTest};
  std::array<std::map<FileIdentity, const ImageFile*>, kSplitParts> files;
  for (std::size_t later = 0; later < kSplitParts; ++later) {
    files[later] = files_by_identity(parts[later].list, kParts[later]);
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      const SharedThings classes = shared_classes(parts[earlier], parts[later]);
      if (classes.any()) {
        errors.push_back(classes.error(kParts[earlier], kParts[later],
                                       "give each part classes of its own; classes: alternating divides one folder, "
                                       "and validation: null leaves that part out"));
        continue;  // whose images are the same, too
      }
      SharedThings images("image", "images");
      for (const auto& [identity, file] : files[later]) {
        if (files[earlier].contains(identity)) images.add(file->name);
      }
      if (images.any())
        errors.push_back(images.error(kParts[earlier], kParts[later], "take them out of one of the lists"));
    }
  }
}

}  // namespace stages
