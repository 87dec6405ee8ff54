#include "stages/few_shot/few_shot_list.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "stages/data/annotation_files.h"
#include "stages/data/image_files.h"
#include "stages/few_shot/model_few_shot_transformer.h"
#include "stages/random/random.h"
#include "stages/text/class_text.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::Diagnostic;
using runner::Diagnostics;
using runner::ErrorCode;

constexpr std::size_t kNamedFiles = 10;
constexpr const char* kListHelp = "correct the list, or regenerate it";
constexpr const char* kMissingHelp =
    "image paths are relative to the folder that contains the list file: correct the paths, "
    "or move the images into that folder";
constexpr std::array<const char*, 4> kImageFolders = {"", "images", "Dataset", "data"};

fs::path normal_form(const fs::path& path) {
  std::error_code error;
  fs::path result = fs::absolute(path, error).lexically_normal();
  return result.has_filename() ? result : result.parent_path();  // turns "a/" into "a"
}

/// Returns the classes at `positions` in a list of class folders, which is in name order.
ImageList with_classes(const ImageList& all, const std::set<std::size_t>& positions, Part part) {
  ImageList some{.root = all.root};
  std::map<std::int64_t, std::int64_t> labels;
  for (const std::size_t position : positions) {
    labels.emplace(static_cast<std::int64_t>(position),
                   static_cast<std::int64_t>(some.classes.size()));
    some.classes.push_back(all.classes[position]);
  }
  for (const ImageFile& file : all[Part::kTrain]) {
    if (const auto label = labels.find(file.label); label != labels.end())
      some[part].push_back({file.name, label->second});
  }
  some.not_taken = all.not_taken;
  some.notes = all.notes;
  return some;
}

class FewShotLister {
 public:
  explicit FewShotLister(const FewShotSource& source)
      : source_(source), root_(normal_form(source.root)) {
    std::error_code error;
    real_root_ = fs::canonical(source.root, error);
  }

  runner::Result<std::array<FewShotPart, kSplitParts>> list() {
    std::error_code error;
    if (!fs::is_directory(source_.root, error)) {
      return Diagnostic{ErrorCode::kMissingFolder,
                        {},
                        "/root",
                        "there is no folder '" + source_.root.string() + "'",
                        kGetIt};
    }
    std::array<FewShotPart, kSplitParts> parts;
    for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest}) {
      part_ = part;
      FewShotPart& made = parts[static_cast<std::size_t>(part)];
      if (!source_.candidates[static_cast<std::size_t>(part)].empty()) made = list_part();
      made.list.root = source_.root;
      std::ranges::sort(made.list[part], [](const ImageFile& a, const ImageFile& b) {
        return std::tie(a.label, a.name) < std::tie(b.label, b.name);
      });
    }
    if (errors_.empty()) check_overlap(parts, errors_);
    if (!errors_.empty()) return std::move(errors_);
    return parts;
  }

 private:
  static constexpr const char* kGetIt =
      "correct the path; `retort data make mini_imagenet --out DIR` makes a small set for few-shot "
      "learning, `retort data fetch cub200 --out DIR` fetches birds";

  FewShotPart list_part() {
    const auto& candidates = source_.candidates[static_cast<std::size_t>(part_)];
    std::error_code error;
    const auto found = std::ranges::find_if(candidates, [&](const std::string& path) {
      return fs::exists(source_.root / path, error);
    });
    if (found == candidates.end()) {
      fail(ErrorCode::kMissingAnnotations,
           "there is no file or folder '" + runner::join(paths_of(candidates), "', nor '") + "'",
           kGetIt);
      return {};
    }
    const fs::path path = source_.root / *found;
    FewShotPart part;
    if (fs::is_directory(path, error)) part = divided(path);
    else if (path.extension() == ".json") part = listed(path, &read_filelist);
    else if (path.extension() == ".csv") part = listed(path, &read_split_csv);
    else if (path.extension() == ".txt") part = named(path);
    else {
      fail(ErrorCode::kNotAllowedValue, "'" + path.string() + "' is not a readable list of images",
           "use a filelist (.json), a split (.csv), a list of class names (.txt), or a folder of "
           "class folders");
    }
    part.place = *found;
    return part;
  }

  std::vector<std::string> paths_of(const std::vector<std::string>& candidates) const {
    std::vector<std::string> paths;
    for (const std::string& path : candidates) paths.push_back((source_.root / path).string());
    return paths;
  }

  // The following functions read lists of images.

  FewShotPart listed(const fs::path& path,
                     ListedImages (*read)(AnnotationFiles&, const std::string&)) {
    AnnotationFiles files(path.parent_path(), kListHelp);
    const std::string name = path.filename().string();
    ListedImages images = read(files, name);
    for (std::string& image : images.paths)
      std::ranges::replace(image, '\\', '/');  // Windows path separator
    if (files.is_faultless() && images.paths.empty()) files.fault(name, "it lists no images");
    FewShotPart part;
    part.is_named = images.is_named;
    const bool are_below_classes = read == &read_split_csv;
    if (files.is_faultless()) {
      if (are_below_classes) find_below(path, images);
      take(files, name, path.parent_path(), images, part.list);
    }
    for (const Diagnostic& error : files.errors()) fail(error.code, error.message, error.help);
    if (files.is_faultless()) check_there(part.list);
    part.list.classes = std::move(images.classes);
    part.list.annotations = files.digest();
    return part;
  }

  /// Finds the folder that contains the files of a table, and makes their paths absolute. It is the
  /// first of folders_near() that contains one of the files, directly or in its class's folder.
  void find_below(const fs::path& list, ListedImages& images) {
    const auto in_class = [&](std::size_t i) {
      return fs::path(images.classes[static_cast<std::size_t>(images.labels[i])]) / images.paths[i];
    };
    const auto [folder, has_classes] = [&]() -> std::pair<fs::path, bool> {
      std::error_code error;
      const auto folders = folders_near(list);
      for (std::size_t i = 0; i < images.paths.size();
           i += std::max<std::size_t>(1, images.paths.size() / 100)) {
        for (const fs::path& folder : folders) {
          if (fs::exists(disk_.called(folder / in_class(i)), error)) return {folder, true};
          if (fs::exists(disk_.called(folder / images.paths[i]), error)) return {folder, false};
        }
      }
      return {folders.front(), true};
    }();
    for (std::size_t i = 0; i < images.paths.size(); ++i)
      images.paths[i] = (folder / (has_classes ? in_class(i) : fs::path(images.paths[i]))).string();
  }

  /// Returns the folders that may contain the images of a list that does not specify a folder: the
  /// list's own folder, conventionally named folders in it, and the same for each parent folder up
  /// to root.
  std::vector<fs::path> folders_near(const fs::path& list) const {
    std::vector<fs::path> folders;
    const auto add = [&](const fs::path& base) {
      for (const char* const inner : kImageFolders) folders.push_back(normal_form(base / inner));
    };
    fs::path base = normal_form(list.parent_path());
    const bool is_in_root = is_below(base, root_);
    add(base);
    for (; is_in_root && base != root_;) add(base = base.parent_path());
    if (!is_in_root) add(root_);
    return folders;
  }

  void take(AnnotationFiles& files, const std::string& name, const fs::path& folder,
            const ListedImages& images, ImageList& list) {
    std::vector<std::string> outside;
    std::unordered_map<std::string, std::size_t> lines;
    for (std::size_t i = 0; i < images.paths.size(); ++i) {
      const auto below = below_root(disk_.called(normal_form(folder / images.paths[i])));
      if (!below) {
        outside.push_back(runner::printable_ascii(images.paths[i]));
        continue;
      }
      if (!is_image_path(below->starts_with('/') ? std::string_view(*below).substr(1) : *below)) {
        files.fault(name, images.lines[i],
                    "'" + runner::printable_ascii(images.paths[i]) + "' is not the path of a " +
                        std::string(runner::kImageEndings) + " file");
        continue;
      }
      const auto [first, is_new] = lines.emplace(*below, images.lines[i]);
      if (!is_new) {
        files.fault(name, images.lines[i],
                    "'" + runner::printable_ascii(images.paths[i]) +
                        "' is listed twice, first on line " + std::to_string(first->second));
      }
      list[part_].push_back({*below, images.labels[i]});
    }
    if (outside.empty()) return;
    fail(ErrorCode::kOutsideRoot,
         "'" + (folder / name).string() + "' lists " + std::to_string(outside.size()) + " of its " +
             std::to_string(images.paths.size()) + " images outside '" + source_.root.string() +
             "': " + runner::listed(outside, kNamedFiles, "'"),
         "write paths relative to the folder of the list, or set allow_outside: true");
  }

  /// Returns a normalized path in the form that the recipe would use.
  fs::path shown(const fs::path& path) const {
    return is_below(path, root_)
               ? (source_.root / path.lexically_relative(root_)).lexically_normal()
               : path;
  }

  /// Returns a normalized path relative to root. For a path outside root, returns it unchanged if
  /// that is allowed, and nullopt otherwise.
  std::optional<std::string> below_root(const fs::path& path) const {
    for (const fs::path& root : {root_, real_root_}) {
      if (is_below(path, root) && path != root) return path.lexically_relative(root).string();
    }
    if (source_.allow_outside) return path.string();
    return std::nullopt;
  }

  void check_there(ImageList& list) {
    list.root = source_.root;
    Diagnostics errors;
    check_files(list, source_.allow_outside, errors, kNamedFiles, kMissingHelp);
    for (const Diagnostic& error : errors) fail(error.code, error.message, error.help);
  }

  // The following functions read folders of classes.

  /// Lists the classes in a folder that belong to this part.
  FewShotPart divided(const fs::path& folder) {
    const ImageList* const all = class_folders(folder);
    if (!all) return {};
    const std::size_t count = all->classes.size();
    std::set<std::size_t> mine;
    if (source_.classes == FolderClasses::kRandom) {
      const std::vector<std::string_view> names(all->classes.begin(), all->classes.end());
      const std::vector<std::size_t> drawn = drawn_by_name(names, source_.split_seed);
      const auto [begin, end] = drawn_places(count);
      mine.insert(drawn.begin() + begin, drawn.begin() + end);
    } else {
      for (std::size_t place = 0; place < count; ++place)
        if (source_.classes == FolderClasses::kAll || part_of(place) == part_) mine.insert(place);
    }
    if (mine.empty()) {
      fail(ErrorCode::kTooFewSamples,
           "none of the " + std::to_string(count) + " classes in '" + folder.string() +
               "' is left for " + std::string(name(part_)),
           "put at least four classes there, or set classes: all");
    }
    std::set<std::size_t> spare;
    for (std::size_t place = 0; place < count; ++place)
      if (!mine.contains(place)) spare.insert(place);
    return {.list = with_classes(*all, mine, part_), .spare = with_classes(*all, spare, part_)};
  }

  static Part part_of(std::size_t place) {
    if (place % 2 == 0) return Part::kTrain;
    return place % 4 == 1 ? Part::kValidation : Part::kTest;
  }

  /// Returns the range of this part's classes in a random order of `count` classes. It is as large
  /// as in the alternating division. The parts' ranges are consecutive, so an additional class
  /// moves only a few classes to another part.
  std::pair<std::ptrdiff_t, std::ptrdiff_t> drawn_places(std::size_t count) const {
    std::ptrdiff_t begin = 0, end = 0;
    for (std::size_t place = 0; place < count; ++place) {
      if (part_of(place) < part_) ++begin;
      if (part_of(place) <= part_) ++end;
    }
    return {begin, end};
  }

  /// Reads the class names in a text file, one per line.
  FewShotPart named(const fs::path& path) {
    AnnotationFiles files(path.parent_path(), kListHelp);
    const std::string file = path.filename().string();
    std::map<std::string, std::size_t> lines, seen;  // line number of each name
    files.for_lines(file, kMaxListBytes, [&](std::size_t number, std::string_view line) {
      const std::size_t begin = line.find_first_not_of(" \t");
      if (begin == line.npos) return;
      line = line.substr(begin, line.find_last_not_of(" \t") - begin + 1);
      const bool is_name = line.front() != '.' && line.find('/') == line.npos &&
                           line.size() <= 200 && runner::printable(line) == line;
      if (!is_name) files.fault(file, number, "it cannot be the name of a folder");
      else if (const auto [first, is_new] = seen.emplace(compared_name(line), number); !is_new)
        files.fault(file, number,
                    "line " + std::to_string(first->second) + " already lists this class");
      else lines.emplace(line, number);
    });
    if (files.is_faultless() && lines.empty()) files.fault(file, "it lists no classes");
    FewShotPart part;
    if (files.is_faultless()) part.list = classes_of(path, lines, files);
    for (const Diagnostic& error : files.errors()) fail(error.code, error.message, error.help);
    part.list.annotations = files.digest();
    return part;
  }

  /// Lists the classes that are named in these lines of a text file, in the first of folders_near()
  /// that contains any of them.
  ImageList classes_of(const fs::path& text, const std::map<std::string, std::size_t>& lines,
                       AnnotationFiles& files) {
    std::set<std::string> names, called;
    for (const auto& line : lines) names.insert(line.first);
    const auto folders = folders_near(text);
    const auto folder = std::ranges::find_if(folders, [&](const fs::path& folder) {
      return std::ranges::any_of(names,
                                 [&](const auto& name) { return disk_.has_folder(folder / name); });
    });
    const fs::path place = folder == folders.end() ? folders.front() : *folder;
    for (const auto& [name, number] : lines) {
      called.insert(disk_.called(place / name).filename().string());
      if (disk_.has_folder(place / name)) continue;
      files.fault(text.filename().string(), number,
                  "there is no folder '" + (shown(place) / name).string() + "'");
    }
    if (!files.is_faultless()) return {};
    const std::optional<ImageList> found = list_folder(place, called);
    std::set<std::size_t> all;
    for (std::size_t i = 0; found && i < found->classes.size(); ++i) all.insert(i);
    return found ? with_classes(*found, all, part_) : ImageList{};
  }

  /// Returns the contents of the folder, with file names relative to root. If it cannot be listed,
  /// returns null and reports an error at the first part that uses it.
  const ImageList* class_folders(const fs::path& folder) {
    const fs::path place = normal_form(folder);
    const auto known = folders_.find(place);
    if (known != folders_.end()) return known->second ? &*known->second : nullptr;
    const std::optional<ImageList>& made = folders_[place] = list_folder(place, {});
    return made ? &*made : nullptr;
  }

  /// Lists the classes `only`, or all classes if it is empty, in the folder with the normalized
  /// path `place`. Reports an error and returns nullopt if the folder cannot be listed.
  std::optional<ImageList> list_folder(const fs::path& place, const std::set<std::string>& only) {
    std::error_code error;
    if (!source_.allow_outside && !is_below(fs::canonical(place, error), real_root_)) {
      fail(ErrorCode::kOutsideRoot,
           "'" + shown(place).string() + "' is not below '" + source_.root.string() + "'",
           "choose another root, or set allow_outside: true");
      return std::nullopt;
    }
    auto listed = list_class_folders(shown(place), source_.root, source_.allow_outside, only);
    if (!listed) {
      for (const Diagnostic& problem : listed.errors())
        fail(problem.code, problem.message, problem.help);
      return std::nullopt;
    }
    if (place != root_) {
      const std::string below = below_root(place).value_or("") + "/";
      for (ImageFile& file : (*listed)[Part::kTrain]) file.name.insert(0, below);
    }
    return *std::move(listed);
  }

  void fail(ErrorCode code, std::string message, std::string help) {
    errors_.push_back(
        {code, {}, "/" + std::string(name(part_)), std::move(message), std::move(help)});
  }

  const FewShotSource& source_;
  const fs::path root_;  // normalized
  fs::path real_root_;
  Part part_ = Part::kTrain;
  std::map<fs::path, std::optional<ImageList>> folders_;
  NamesOnDisk disk_;
  Diagnostics errors_;
};

}  // namespace

runner::Result<std::array<FewShotPart, kSplitParts>> list_few_shot(const FewShotSource& source) {
  return FewShotLister(source).list();
}

}  // namespace stages
