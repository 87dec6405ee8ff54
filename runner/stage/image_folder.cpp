#include "runner/stage/image_folder.h"

#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <vector>

namespace runner {
namespace {

/// One call of find_leftovers().
class LeftoverCount {
 public:
  explicit LeftoverCount(std::int64_t most_entries) : left_(most_entries) {}

  Leftovers in(const std::filesystem::path& root) {
    const std::vector<std::filesystem::path> folders = look_into(root, Holds::kFolders);
    const bool is_divided = std::ranges::any_of(folders, is_part);
    for (const auto& folder : folders) {
      if (!is_divided) look_into(folder, Holds::kImages);
      else if (is_part(folder))
        for (const auto& label : look_into(folder, Holds::kFolders)) look_into(label, Holds::kImages);
    }
    return found_;
  }

 private:
  enum class Holds { kFolders, kImages };

  static bool is_part(const std::filesystem::path& folder) {
    constexpr std::array<std::string_view, 3> kParts = {"train", "validation", "test"};
    return std::ranges::find(kParts, folder.filename().string()) != kParts.end();
  }

  /// Counts what is not expected there; gives back the folders that are.
  std::vector<std::filesystem::path> look_into(const std::filesystem::path& folder, Holds holds) {
    std::vector<std::filesystem::path> expected;
    std::error_code error;
    for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (left_-- <= 0) {
        found_.complete = false;
        break;
      }
      std::error_code ignored;
      const std::string name = at->path().filename().string();
      if (at->is_directory(ignored)) {
        if (holds == Holds::kFolders && !name.starts_with('.')) expected.push_back(at->path());
        else found_.counts.folder(name);
      } else if (holds == Holds::kFolders || !is_image_name(name)) {
        found_.counts.file(name);
      }
    }
    return expected;
  }

  Leftovers found_;
  std::int64_t left_;
};

}  // namespace

Leftovers find_leftovers(const std::filesystem::path& root, std::int64_t most_entries) {
  return LeftoverCount(most_entries).in(root);
}

Diagnostic missing_images_error(const std::filesystem::path& root) {
  return {ErrorCode::kMissingFolder,
          {},
          "",
          "there is no folder '" + root.string() + "'",
          "it must hold one folder of images for each class; `retort data make image_folder --out DIR` makes one"};
}

Diagnostic other_images_error(const std::filesystem::path& root, const NotTaken& counts) {
  const std::int64_t count = counts.count_other_images();
  return {ErrorCode::kUnsupportedImage,
          {},
          "",
          "'" + root.string() + "' holds " + std::to_string(count) + (count == 1 ? " image" : " images") +
              " in an unsupported format: " + counts.other_images(),
          "convert them to " + std::string(kImageFormats) + ", or leave them out with on_corrupt: skip"};
}

}  // namespace runner
