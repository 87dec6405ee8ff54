#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "stages/data/annotation_files.h"
#include "stages/data/image_files.h"
#include "stages/data/image_stage.h"

namespace stages {
namespace {

/// Lists the images in root/images.csv, which has one line per image: FILE,CLASS. Reports all
/// errors at once.
runner::Result<ImageList> list_novel(const std::filesystem::path& root, bool allow_outside) {
  constexpr const char* kTable = "images.csv";
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  AnnotationFiles files(root);
  ImageList list{.root = root};
  files.for_lines(kTable, kMostBytes, [&](std::size_t number, std::string_view line) {
    const std::size_t comma = std::min(line.find(','), line.size());
    const std::string_view file = line.substr(0, comma),
                           name = line.substr(std::min(comma + 1, line.size()));
    if (!is_image_path(file) || name.empty())
      return files.fault(
          kTable, number,
          "it does not have the form FILE,CLASS, where FILE is a .jpg, .jpeg, .png or .webp file");
    const auto found = std::ranges::find(list.classes, name);
    list[Part::kTrain].push_back({std::string(file), found - list.classes.begin()});
    if (found == list.classes.end()) list.classes.emplace_back(name);
  });
  if (files.is_faultless() && list.classes.empty()) files.fault(kTable, "it lists no images");
  runner::Diagnostics errors = files.errors();
  if (errors.empty()) check_files(list, allow_outside, errors);
  if (!errors.empty()) return errors;
  list.annotations = files.digest();
  return list;
}

runner::Result<std::unique_ptr<runner::Stage>> create_novel(runner::ConfigReader& reader) {
  const ImageOptions options = read_image_options(reader);
  ImageSource source;
  source.list = [root = options.root, outside = options.allow_outside] {
    return list_novel(root, outside);
  };
  double test = 0;
  reader.read("test", test);
  source.split = {.train = 1 - test, .validation = 0, .test = test};
  return image_stage(reader, options, std::move(source));
}

}  // namespace

extern const runner::StageKind kDataNovel = {.name = "data.novel", .create = create_novel};

}  // namespace stages
