#include "stages/adapters/data_cub200.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stages/data/annotation_files.h"
#include "stages/data/image_files.h"
#include "stages/data/image_stage.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_cub200(runner::ConfigReader& reader) {
  const ImageOptions options = read_image_options(reader);
  double validation = 0;
  bool crop_to_box = false;
  ImageSource source;
  reader.read("validation", validation);
  reader.read("split_seed", source.split_seed);
  reader.read("crop_to_box", crop_to_box);
  if (validation > 0) source.split = {.train = 1 - validation, .validation = validation, .test = 0};
  source.folds = read_folds(reader);
  source.captions = read_captions(reader, {"name"});
  source.obtain = read_download(reader, "cub200", options.root);
  source.list = [root = options.root, crop_to_box, outside = options.allow_outside] {
    return list_cub200(root, crop_to_box, outside);
  };
  return image_stage(reader, options, std::move(source));
}

}  // namespace

extern const runner::StageKind kDataCub200 = {.name = "data.cub200", .create = create_cub200};

namespace {

namespace fs = std::filesystem;
using runner::Diagnostics;
using runner::ErrorCode;

constexpr const char *kFolder = "CUB_200_2011", *kImages = "images.txt",
                     *kLabels = "image_class_labels.txt", *kSplit = "train_test_split.txt",
                     *kClasses = "classes.txt", *kBoxes = "bounding_boxes.txt";
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
constexpr std::int64_t kMostClasses = 100'000;

using Words = std::vector<std::string_view>;

Words words_of(std::string_view line) {
  Words words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = line.find_first_not_of(' ', at);
    if (begin == line.npos) break;
    at = std::min(line.find(' ', begin), line.size());
    words.push_back(line.substr(begin, at - begin));
  }
  return words;
}

/// Parses the entire `word` as a number; returns nullopt if it is not one.
template <typename T>
std::optional<T> number_of(std::string_view word) {
  T number{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return number;
}

/// Returns "Black footed Albatross" for "001.Black_footed_Albatross".
std::string display_name(std::string_view name) {
  const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  if (digits > 0 && digits + 1 < name.size() && name[digits] == '.') name.remove_prefix(digits + 1);
  std::string result(name);
  std::ranges::replace(result, '_', ' ');
  return result;
}

/// What the text files say about one image.
struct Bird {
  std::string path;
  std::optional<std::int64_t> class_number;
  std::optional<bool> is_for_training;
  std::optional<Box> box;
};

class Lister {
 public:
  explicit Lister(const fs::path& folder) : files_(folder) {}

  void read(bool boxes) {
    read_classes();
    read_images();
    read_labels();
    read_split();
    if (boxes) read_boxes();
  }

  Diagnostics errors() const { return files_.errors(); }

  /// Returns the images that were read. Call it only if there are no errors.
  ImageList list(const fs::path& folder) {
    ImageList list;
    list.root = folder;
    list.annotations = files_.digest();
    for (const auto& [number, name] : classes_) list.classes.push_back(display_name(name));
    for (Bird& bird : birds_) {
      list[*bird.is_for_training ? Part::kTrain : Part::kTest].push_back(
          {"images/" + std::move(bird.path), *bird.class_number - 1, bird.box});
    }
    if (list[Part::kTrain].empty())
      list.no_train = {ErrorCode::kBadAnnotations,
                       {},
                       "",
                       "'" + (folder / kSplit).string() + "' lists no training images",
                       ""};
    add_names(list, list.classes);
    return list;
  }

 private:
  /// Calls `use` with (line, number, words) for each line of `file`. Reports lines that do not have
  /// `count` words (described by `form`) or do not begin with a positive number.
  void for_lines(const char* file, std::size_t count, const char* form,
                 const std::function<void(std::size_t, std::int64_t, const Words&)>& use) {
    files_.for_lines(file, kMaxBytes, [&](std::size_t line, std::string_view text) {
      const Words words = words_of(text);
      const auto number = words.empty() ? std::nullopt : number_of<std::int64_t>(words[0]);
      if (words.size() != count || !number || *number < 1) {
        files_.fault(file, line, std::string("it is not of the form ") + form);
        return;
      }
      use(line, *number, words);
    });
  }

  void read_classes() {
    std::map<std::string, std::int64_t> shown;
    for_lines(
        kClasses, 2, "NUMBER NAME", [&](std::size_t line, std::int64_t number, const Words& words) {
          if (!classes_.emplace(number, words[1]).second) {
            files_.fault(kClasses, line, "class " + std::to_string(number) + " is listed twice");
            return;
          }
          const auto [same, is_new] = shown.emplace(display_name(words[1]), number);
          if (is_new) return;
          files_.fault(kClasses, line,
                       "classes " + std::to_string(same->second) + " and " +
                           std::to_string(number) + " are both called '" + same->first + "'");
        });
    if (classes_.empty()) {
      if (files_.is_faultless()) files_.fault(kClasses, "it lists no classes");
      return;
    }
    const std::int64_t last = classes_.rbegin()->first,
                       count = static_cast<std::int64_t>(classes_.size());
    if (last == count && count <= kMostClasses) return;
    if (files_.is_faultless()) {
      files_.fault(kClasses, "its " + std::to_string(count) + " classes are not numbered 1 to " +
                                 std::to_string(count));
    }
  }

  void read_images() {
    std::unordered_map<std::string, std::size_t> paths;
    for_lines(
        kImages, 2, "IMAGE PATH", [&](std::size_t line, std::int64_t number, const Words& words) {
          if (!is_image_path(words[1])) {
            files_.fault(kImages, line,
                         "its path must be that of a " + std::string(runner::kImageEndings) +
                             " file below images/");
            return;
          }
          if (!places_.emplace(number, birds_.size()).second) {
            files_.fault(kImages, line, "image " + std::to_string(number) + " is listed twice");
            return;
          }
          const auto [same, is_new] = paths.emplace(words[1], line);
          if (!is_new)
            files_.fault(kImages, line,
                         "line " + std::to_string(same->second) + " has the same path");
          birds_.push_back({.path = std::string(words[1]),
                            .class_number = {},
                            .is_for_training = {},
                            .box = {}});
          numbers_.push_back(number);
        });
    if (birds_.empty() && files_.is_faultless()) files_.fault(kImages, "it lists no images");
  }

  /// Calls `use` with the line, the image and the words of each line of `file`. Reports images that
  /// are unknown, listed twice or missing.
  void for_images(const char* file, std::size_t count, const char* form,
                  const std::function<void(std::size_t, Bird&, const Words&)>& use) {
    std::vector<bool> seen(birds_.size());
    const bool knows_images = !birds_.empty();
    for_lines(file, count, form, [&](std::size_t line, std::int64_t number, const Words& words) {
      if (!knows_images) return;
      const auto place = places_.find(number);
      if (place == places_.end()) {
        files_.fault(file, line,
                     std::string(kImages) + " does not list image " + std::to_string(number));
      } else if (seen[place->second]) {
        files_.fault(file, line, "image " + std::to_string(number) + " is listed twice");
      } else {
        seen[place->second] = true;
        use(line, birds_[place->second], words);
      }
    });
    if (!files_.is_faultless()) return;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (!seen[i]) files_.fault(file, "image " + std::to_string(numbers_[i]) + " is missing");
    }
  }

  void read_labels() {
    for_images(kLabels, 2, "IMAGE CLASS", [&](std::size_t line, Bird& bird, const Words& words) {
      bird.class_number = number_of<std::int64_t>(words[1]);
      if (bird.class_number && (classes_.empty() || classes_.contains(*bird.class_number))) return;
      files_.fault(
          kLabels, line,
          std::string(kClasses) + " has no class '" + std::string(words[1].substr(0, 20)) + "'");
    });
  }

  void read_split() {
    for_images(kSplit, 2, "IMAGE PART, where PART is 1 for training or 0 for testing",
               [&](std::size_t line, Bird& bird, const Words& words) {
                 if (words[1] == "0" || words[1] == "1") bird.is_for_training = words[1] == "1";
                 else
                   files_.fault(kSplit, line, "the value must be 1 for training or 0 for testing");
               });
  }

  void read_boxes() {
    for_images(
        kBoxes, 5, "IMAGE LEFT TOP WIDTH HEIGHT",
        [&](std::size_t line, Bird& bird, const Words& words) {
          double edges[4];
          for (std::size_t i = 0; i < 4; ++i) {
            const auto number = number_of<double>(words[i + 1]);
            // This condition also rejects NaN.
            if (!number || !(std::abs(*number) <= kMaxSide)) {
              files_.fault(kBoxes, line, "its box must be four numbers, in pixels");
              return;
            }
            edges[i] = *number;
          }
          const auto [left, top, width, height] = edges;
          if (width <= 0 || height <= 0) {
            files_.fault(kBoxes, line, "its box is empty");
            return;
          }
          // The result contains every pixel that the box covers at least partly.
          Box box{static_cast<int>(std::floor(left)), static_cast<int>(std::floor(top)), 0, 0};
          box.width = static_cast<int>(std::ceil(left + width)) - box.left;
          box.height = static_cast<int>(std::ceil(top + height)) - box.top;
          bird.box = box;
        });
  }

  AnnotationFiles files_;
  std::map<std::int64_t, std::string> classes_;
  std::vector<Bird> birds_;            // in the order of images.txt
  std::vector<std::int64_t> numbers_;  // the image number of each element of birds_
  std::unordered_map<std::int64_t, std::size_t> places_;
};

}  // namespace

runner::Result<ImageList> list_cub200(const fs::path& root, bool boxes, bool allow_outside) {
  const auto folder = published_folder(root, kFolder, kImages);
  if (!folder) {
    return runner::Diagnostic{
        ErrorCode::kMissingFolder,
        {},
        "",
        "CUB-200-2011 is not in '" + root.string() + "', which contains neither " + kImages +
            " nor a folder named " + kFolder,
        "check root; `retort data fetch cub200` downloads the dataset, `retort data "
        "make cub200` creates a small dataset in the same format"};
  }
  Lister lister(*folder);
  lister.read(boxes);
  Diagnostics errors = lister.errors();
  if (!errors.empty()) return errors;
  ImageList list = lister.list(*folder);
  check_files(list, allow_outside, errors);
  if (!errors.empty()) return errors;
  return list;
}

}  // namespace stages
