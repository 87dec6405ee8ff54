#include "stages/evaluate/trained_images.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runner/shared/disk/digest.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/division.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamedTrained = 5;

/// Returns the digest of a file; empty if it cannot be read.
std::string digest_of_image(const fs::path& file) {
  runner::Digest digest;
  return digest.update_from(file) == 0 ? digest.finish() : "";
}

/// The images in some parts of a division.
class TrainedImages {
 public:
  TrainedImages(const Division& division, const std::set<std::string>& parts)
      : root_(division.root) {
    for (const auto& [part, files] : division.parts) {
      if (!parts.contains(part)) continue;
      for (const Division::File& file : files) {
        bytes_of_.emplace(file.name, file.bytes);
        of_size_[file.bytes].push_back(file.name);
      }
    }
  }

  /// Sets `marked` for those of the images `names` below `root` that are in this set. `look` is
  /// called before each file is inspected, and may throw.
  void mark(const std::string& root, const std::vector<std::string>& names,
            std::vector<bool>& marked, const std::function<void()>& look) {
    std::error_code error;
    if (root == root_) {
      for (std::size_t i = 0; i < names.size(); ++i)
        marked[i] = marked[i] || bytes_of_.contains(names[i]);
    } else if (fs::is_directory(root_, error)) {
      for (std::size_t i = 0; i < names.size(); ++i) {
        look();
        marked[i] = marked[i] || has_bytes(fs::path(root) / names[i]);
      }
    } else {
      mark_moved(root, names, marked, look);
    }
  }

 private:
  bool has_bytes(const fs::path& path) {
    const std::uintmax_t bytes = bytes_of_file(path);
    const auto alike = of_size_.find(bytes);
    if (bytes == 0 || alike == of_size_.end()) return false;
    auto& digests = digests_[bytes];
    if (!digests) {
      digests.emplace();
      for (const std::string& name : alike->second)
        digests->insert(digest_of_image(fs::path(root_) / name));
      digests->erase("");
    }
    return !digests->empty() && digests->contains(digest_of_image(path));
  }

  /// Marks images if the training folder no longer exists. `root` is assumed to be the moved folder
  /// if at least half of the images with a known name have the known size; in an unrelated folder,
  /// a few may match by chance.
  void mark_moved(const std::string& root, const std::vector<std::string>& names,
                  std::vector<bool>& marked, const std::function<void()>& look) const {
    std::size_t same_name = 0;
    std::vector<std::size_t> same_size;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto known = bytes_of_.find(names[i]);
      if (known == bytes_of_.end()) continue;
      look();
      ++same_name;
      if (bytes_of_file(fs::path(root) / names[i]) == known->second) same_size.push_back(i);
    }
    if (2 * same_size.size() < same_name) return;
    for (const std::size_t i : same_size) marked[i] = true;
  }

  std::string root_;
  std::unordered_map<std::string, std::uintmax_t> bytes_of_;
  std::unordered_map<std::uintmax_t, std::vector<std::string>> of_size_;
  // Digests of the files, by file size.
  std::unordered_map<std::uintmax_t, std::optional<std::unordered_set<std::string>>> digests_;
};

}  // namespace

std::int64_t check_trained_images(const Dataset& test, bool allowed, runner::RunContext& context) {
  const auto* const files = dynamic_cast<const FilesOnDisk*>(&test);
  const std::string root = files && !files->root().empty() ? division_root(files->root()) : "";
  const auto& trained_data = context.node().trained_data;
  if (root.empty() || trained_data.empty()) return 0;
  std::vector<TrainedImages> trained;
  const bool is_trained_part =
      std::ranges::any_of(trained_data, [](const auto& one) { return one.folder.empty(); });
  for (const runner::TrainedData& one : trained_data) {
    if (one.folder.empty()) continue;
    const fs::path file = runner::NodeLayout(one.folder).division();
    std::error_code error;
    if (fs::exists(file, error)) trained.emplace_back(read_division(file), one.parts);
    else if (one.is_earlier)
      context.say("the images that the model was trained on are not recorded in '" +
                  one.folder.string() + "': the test images may be among them");
  }
  if (trained.empty() && !is_trained_part) return 0;
  const std::int64_t size = test.describe().size;
  std::vector<std::string> names;
  for (std::int64_t index = 0; index < size; ++index) names.push_back(test.sample_name(index));
  std::vector<bool> is_trained(names.size(), is_trained_part);
  for (TrainedImages& images : trained) {
    images.mark(root, names, is_trained, [&] {
      if (context.canceled()) throw runner::Canceled{};
    });
  }
  std::vector<std::string> found;
  const std::int64_t count = std::ranges::count(is_trained, true);
  for (std::size_t i = 0; i < names.size() && found.size() <= kNamedTrained; ++i)
    if (is_trained[i]) found.push_back(runner::printable(names[i]));
  const std::string of_all =
      std::to_string(count) + " of the " + std::to_string(size) + " test images";
  if (count == 0) {
    const std::string line =
        "the model was trained on none of the " + std::to_string(size) + " test images";
    const bool is_of_earlier = std::ranges::any_of(trained_data, &runner::TrainedData::is_earlier);
    if (is_of_earlier) context.say(line);
    else context.detail(line);
    return 0;
  }
  const std::string more = count > std::ssize(found) ? " and others" : "";
  const std::string listed = "'" + runner::join(found, "', '") + "'" + more;
  const std::string line =
      "the model was trained on " + of_all + ", or was selected by its results on them: " + listed;
  if (allowed) {
    context.say(line);
    return count;
  }
  throw runner::StageError(runner::ErrorCode::kBadAnnotations, line)
      .at("/allow_trained")
      .with_help(
          "test on the part that the run set aside for testing, or on other images; set "
          "allow_trained: true to evaluate on these anyway");
}

}  // namespace stages
