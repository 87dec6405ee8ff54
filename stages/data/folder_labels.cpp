#include "stages/data/folder_labels.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "stages/data/image_files.h"
#include "stages/data/label_columns.h"

namespace stages {
namespace {

bool has_same_bytes(const std::filesystem::path& one, const std::filesystem::path& other,
                    runner::FileDigests& contents) {
  std::error_code error;
  if (std::filesystem::equivalent(one, other, error)) return true;
  return std::filesystem::file_size(one, error) == std::filesystem::file_size(other, error) &&
         contents.of(one) == contents.of(other);
}

/// Returns "'cat/1.jpg' and 'dog/1.jpg'".
std::string pair_text(const std::string& one, const std::string& other) {
  return "'" + runner::printable(one) + "' and '" + runner::printable(other) + "'";
}

}  // namespace

runner::Result<ImageList> with_folder_labels(ImageList list) {
  runner::FileDigests contents;
  std::vector<std::string> differing;
  std::vector<std::vector<std::int64_t>> labels;  // for each image, in the order of the parts
  for (std::vector<ImageFile>& part : list.parts) {
    const std::size_t before = labels.size();
    std::unordered_map<std::string, std::size_t> known;  // indices into `images`, by file name
    std::vector<ImageFile> images;
    for (ImageFile& file : part) {
      const auto [found, is_new] =
          known.emplace(file.name.substr(file.name.rfind('/') + 1), images.size());
      if (is_new) {
        labels.push_back({file.label});
        images.push_back(std::move(file));
        continue;
      }
      ImageFile& image = images[found->second];
      if (!has_same_bytes(list.root / image.name, list.root / file.name, contents))
        differing.push_back(pair_text(image.name, file.name));
      std::vector<std::int64_t>& own = labels[before + found->second];
      if (std::ranges::find(own, file.label) == own.end()) own.push_back(file.label);
      image.copies.push_back(std::move(file.name));
    }
    part = std::move(images);
  }
  if (!differing.empty())
    return runner::Diagnostic{
        runner::ErrorCode::kBadAnnotations,
        {},
        "/multi_label",
        "images with the same file name in several class folders differ: " +
            runner::listed(differing, kListedFiles),
        "with multi_label, files with the same name are one image with several labels: rename "
        "those that are different images, or set multi_label: false if each image has one class"};
  const auto several =
      std::ranges::count_if(labels, [](const auto& own) { return own.size() > 1; });
  list.notes.push_back(std::to_string(several) + " of " + std::to_string(labels.size()) +
                       " images are in more than one class folder");
  const std::vector<LabelsOfImage> numbered = add_label_sets(list, std::move(labels));
  auto next = numbered.begin();
  for (std::vector<ImageFile>& part : list.parts) {
    for (ImageFile& image : part) {
      image.label = next->rarest;
      image.label_set = next->set;
      ++next;
    }
  }
  return list;
}

}  // namespace stages
