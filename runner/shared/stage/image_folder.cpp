#include "runner/shared/stage/image_folder.h"

#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace runner {
namespace {

/// One call to find_leftovers().
class LeftoverCount {
 public:
  explicit LeftoverCount(std::int64_t most_entries) : left_(most_entries) {}

  Leftovers in(const std::filesystem::path& root) {
    const std::vector<std::filesystem::path> folders = look_into(root, Holds::kFolders);
    const bool is_divided = std::ranges::any_of(folders, is_part_folder);
    for (const auto& folder : folders) {
      if (!is_divided) look_into(folder, Holds::kImages);
      else if (is_part_folder(folder))
        for (const auto& label : look_into(folder, Holds::kFolders))
          look_into(label, Holds::kImages);
    }
    return found_;
  }

 private:
  enum class Holds { kFolders, kImages };

  /// Counts unexpected entries, and returns the expected folders.
  std::vector<std::filesystem::path> look_into(const std::filesystem::path& folder, Holds holds) {
    std::vector<std::filesystem::path> expected;
    std::error_code error;
    for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
         at.increment(error)) {
      if (left_-- <= 0) {
        found_.complete = false;
        break;
      }
      std::error_code ignored;
      const std::string name = at->path().filename().string();
      if (at->is_directory(ignored)) {
        if (holds == Holds::kFolders && !name.starts_with('.')) expected.push_back(at->path());
        else found_.counts.folder(name);
      } else if (holds == Holds::kFolders || !is_image_name(name) || !is_regular(*at)) {
        found_.counts.file(name);
      }
    }
    return expected;
  }

  /// True unless the entry is a pipe, a socket or another special file. Accepts links, since a
  /// broken link is reported by an error of its own.
  static bool is_regular(const std::filesystem::directory_entry& entry) {
    std::error_code ignored;
    return entry.is_symlink(ignored) || entry.is_regular_file(ignored);
  }

  Leftovers found_;
  std::int64_t left_;
};

/// Inspecting some of the entries is enough, because any folders turn up early among the files.
constexpr int kLookedAt = 1000;

}  // namespace

std::string_view part_of_folder(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNames = {
      {{"train", "train"},
       {"training", "train"},
       {"validation", "validation"},
       {"val", "validation"},
       {"valid", "validation"},
       {"dev", "validation"},
       {"test", "test"},
       {"testing", "test"}}};
  const auto is_same = [](char a, char b) {
    return a == ('A' <= b && b <= 'Z' ? b - 'A' + 'a' : b);
  };
  const auto* const found = std::ranges::find_if(
      kNames, [&](const auto& known) { return std::ranges::equal(known.first, name, is_same); });
  return found == kNames.end() ? std::string_view() : found->second;
}

bool is_part_folder(const std::filesystem::path& folder) {
  if (part_of_folder(folder.filename().native()).empty()) return false;
  bool has_images = false;
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  for (int looked = 0; !error && at != std::filesystem::directory_iterator() && looked < kLookedAt;
       ++looked) {
    std::error_code ignored;
    const std::string name = at->path().filename().string();
    if (at->is_directory(ignored)) {
      if (!name.starts_with('.')) return true;
    } else {
      has_images |= is_image_name(name);
    }
    at.increment(error);
  }
  return !has_images;
}

Leftovers find_leftovers(const std::filesystem::path& root, std::int64_t most_entries) {
  return LeftoverCount(most_entries).in(root);
}

Diagnostic missing_images_error(const std::filesystem::path& root) {
  return {ErrorCode::kMissingFolder,
          {},
          "",
          "there is no folder '" + root.string() + "'",
          "set root to a folder that contains one folder of images per class; `retort data make "
          "image_folder --out DIR` creates one"};
}

Diagnostic other_images_error(const std::filesystem::path& root, const NotTaken& counts) {
  const std::int64_t count = counts.count_other_images();
  return {ErrorCode::kUnsupportedImage,
          {},
          "",
          "'" + root.string() + "' contains " + std::to_string(count) +
              (count == 1 ? " image" : " images") +
              " in an unsupported format: " + counts.other_images(),
          "convert them to " + std::string(kImageFormats) +
              ", or leave them out with on_corrupt: skip"};
}

}  // namespace runner
