#include "stages/data/image_list.h"

#include <algorithm>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/image_folder.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/utf8.h"
#include "stages/data/image_files.h"
#include "stages/text/class_text.h"
#include "stages/text/vocabulary.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::Diagnostic;
using runner::Diagnostics;
using runner::ErrorCode;

std::optional<Part> find_part(std::string_view called) {
  for (const Part part : {Part::kTrain, Part::kValidation, Part::kTest})
    if (called == name(part)) return part;
  return std::nullopt;
}

constexpr const char* kRename =
    "rename them, since records use these names; `convmv -f latin1 -t utf8 -r --notest` converts "
    "names from older systems";

std::string quoted(const std::string& text) { return "'" + text + "'"; }

/// Returns "'Rose' and 'rose'" for each group of class names that differ only in letter case or in
/// how accents are written.
std::vector<std::string> alike_but_for_case(const std::vector<std::string>& classes) {
  std::map<std::string, std::vector<std::string>> by_fold;
  for (const std::string& name : classes) by_fold[folded(name)].push_back(quoted(name));
  std::vector<std::string> result;
  for (const auto& [fold, names] : by_fold)
    if (names.size() > 1) result.push_back(runner::join(names, " and "));
  return result;
}

class FolderLister {
 public:
  FolderLister(const fs::path& root, const fs::path& bounds, bool allow_outside)
      : root_(root, allow_outside, bounds) {
    list_.root = root;
  }

  runner::Result<ImageList> list() {
    if (!root_.is_folder()) return runner::missing_images_error(list_.root);
    const std::vector<std::string> folders = folders_of("");
    for (const std::string& folder : folders) {
      if (!runner::is_part_folder(list_.root / folder)) continue;
      std::string& known = part_folders_[*find_part(runner::part_of_folder(folder))];
      if (!known.empty()) {
        fail(ErrorCode::kBadAnnotations,
             quoted(list_.root.string()) + " has both a folder '" + known + "' and a folder '" +
                 folder + "'",
             "keep one of them, or move the images of both into one");
      }
      if (known.empty()) known = folder;
    }
    list_.divided = !part_folders_.empty();
    if (list_.divided) list_parts(folders);
    else list_classes(Part::kTrain, "", folders);
    list_.not_taken = runner::find_leftovers(list_.root).counts;
    return reported();
  }

  /// Lists class folders only: folders called train, validation or test are classes too. If `only`
  /// is not empty, lists only the classes in it.
  runner::Result<ImageList> list_classes_alone(const std::set<std::string>& only) {
    if (!root_.is_folder()) return runner::missing_images_error(list_.root);
    std::vector<std::string> folders = folders_of("");
    if (!only.empty())
      std::erase_if(folders, [&](const std::string& folder) { return !only.contains(folder); });
    list_classes(Part::kTrain, "", folders);
    list_.not_taken = std::move(passed_over_);
    return reported();
  }

 private:
  void list_parts(const std::vector<std::string>& folders) {
    for (const std::string& folder : folders) {
      if (std::ranges::none_of(part_folders_,
                               [&](const auto& part) { return folder == part.second; }))
        list_.ignored.push_back(folder);
    }
    std::map<Part, std::vector<std::string>> classes;
    for (const auto& [part, folder] : part_folders_) classes[part] = folders_of(folder + "/");
    if (!part_folders_.contains(Part::kTest)) {
      list_.no_test = Diagnostic{
          ErrorCode::kTooFewSamples,
          {},
          "",
          quoted(list_.root.string()) + " has no 'test' folder" + neighbors(),
          "add a 'test' folder with one folder per class, or leave out the evaluation: ~evaluate"};
    }
    if (!part_folders_.contains(Part::kTrain)) {
      list_.no_train = Diagnostic{
          ErrorCode::kMissingFolder,
          {},
          "",
          quoted(list_.root.string()) +
              " has a folder for validation or test but no 'train' folder",
          "add a 'train' folder, or rename the other folder if it is meant to be a class"};
      std::set<std::string> all;
      for (const auto& [part, its] : classes) all.insert(its.begin(), its.end());
      list_.classes.assign(all.begin(), all.end());
    }
    for (const auto& [part, its] : classes) list_classes(part, part_folders_[part] + "/", its);
  }

  /// Returns " next to 'train' and 'val'".
  std::string neighbors() const {
    std::vector<std::string> names;
    for (const auto& [part, folder] : part_folders_) names.push_back(quoted(folder));
    return " next to " + runner::join(names, " and ");
  }

  void list_classes(Part part, const std::string& prefix, const std::vector<std::string>& classes) {
    if (classes.empty()) {
      fail(ErrorCode::kMissingFolder,
           "the folder " + quoted((list_.root / prefix).string()) + " contains no class folders",
           "put the images of each class into its own folder");
    }
    if (part == Part::kTrain) list_.classes = classes;
    for (const std::string& folder : classes)
      if (runner::printable(folder) != folder)
        (runner::invalid_utf8(folder) ? nameless_ : unprintable_)
            .insert(runner::with_escapes(folder));
    for (const std::string& folder : classes) {
      const auto found = std::ranges::lower_bound(list_.classes, folder);
      const auto place =
          found != list_.classes.end() && *found == folder
              ? std::optional(static_cast<std::size_t>(found - list_.classes.begin()))
              : place_of_name(folder, list_.classes);
      if (!place) unknown_.push_back(prefix + folder);
      else list_files(part, prefix + folder, static_cast<std::int64_t>(*place));
    }
  }

  void list_files(Part part, const std::string& folder, std::int64_t label) {
    std::vector<ImageFile>& files = list_[part];
    const auto before = static_cast<std::ptrdiff_t>(files.size());
    for (const auto& entry : entries_of(folder)) {
      std::string file = entry.path().filename().string();
      if (!runner::is_image_name(file) || !may_be_file(entry)) {
        pass_over(entry, file);
        continue;
      }
      if (entry.is_symlink() && !root_.follows(folder + "/" + file)) continue;
      if (runner::invalid_utf8(file))
        unwritable_.push_back(runner::with_escapes(folder + "/" + file));
      files.push_back({folder + "/" + file, label});
    }
    if (static_cast<std::ptrdiff_t>(files.size()) == before) empty_.push_back(folder);
    std::sort(files.begin() + before, files.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  }

  /// False for folders, pipes and sockets. The targets of links are checked later.
  static bool may_be_file(const fs::directory_entry& entry) {
    std::error_code error;
    return entry.is_symlink(error) ? !entry.is_directory(error) : entry.is_regular_file(error);
  }

  void pass_over(const fs::directory_entry& entry, const std::string& name) {
    std::error_code error;
    if (entry.is_directory(error)) passed_over_.folder(name);
    else passed_over_.file(name);
  }

  /// Returns the folders in a folder below the root, sorted, excluding hidden ones.
  std::vector<std::string> folders_of(const std::string& below) {
    std::vector<std::string> folders;
    for (const auto& entry : entries_of(below)) {
      std::error_code error;
      std::string folder = entry.path().filename().string();
      if (folder.starts_with('.') || !entry.is_directory(error)) continue;
      if (entry.is_symlink() && !root_.follows(below + folder)) continue;
      folders.push_back(std::move(folder));
    }
    std::ranges::sort(folders);
    return folders;
  }

  // The type of an entry is read along with its name, so hundreds of thousands of files need no
  // further disk access.
  std::vector<fs::directory_entry> entries_of(const std::string& below) {
    std::error_code error;
    std::vector<fs::directory_entry> entries;
    for (fs::directory_iterator at(list_.root / below, error), end; !error && at != end;
         at.increment(error)) {
      entries.push_back(*at);
    }
    if (error)
      fail(ErrorCode::kMissingFolder,
           "the folder " + quoted((list_.root / below).string()) +
               " cannot be read: " + error.message(),
           "");
    return entries;
  }

  runner::Result<ImageList> reported() {
    report();
    if (!errors_.empty()) return std::move(errors_);
    return std::move(list_);
  }

  void report() {
    root_.report(errors_);
    if (!unprintable_.empty()) {
      const std::vector<std::string> names(unprintable_.begin(), unprintable_.end());
      fail(
          ErrorCode::kBadAnnotations,
          (names.size() == 1 ? "the name of a class folder contains terminal control characters: "
                             : "the names of class folders contain terminal control characters: ") +
              runner::listed(names, kListedFiles, "'"),
          names.size() == 1 ? "rename it, since records and reports show it"
                            : "rename them, since records and reports show these names");
    }
    if (!nameless_.empty()) {
      const std::vector<std::string> names(nameless_.begin(), nameless_.end());
      fail(ErrorCode::kBadAnnotations,
           (names.size() == 1 ? "the name of a class folder is not UTF-8 text: "
                              : "the names of class folders are not UTF-8 text: ") +
               runner::listed(names, kListedFiles, "'"),
           kRename);
    } else if (const auto alike = alike_but_for_case(list_.classes); !alike.empty()) {
      list_.notes.push_back(
          "class names that differ only in letter case or in the encoding of accents: " +
          runner::listed(alike, kListedFiles));
    }
    if (!unwritable_.empty() && nameless_.empty()) {
      std::ranges::sort(unwritable_);
      fail(ErrorCode::kBadAnnotations,
           (unwritable_.size() == 1 ? "the name of an image is not UTF-8 text: "
                                    : "the names of " + std::to_string(unwritable_.size()) +
                                          " images are not UTF-8 text: ") +
               runner::listed(unwritable_, kListedFiles, "'"),
           kRename);
    }
    const std::string not_taken = list_.not_taken.text();
    // A class may seem empty only because its links were refused.
    if (!empty_.empty() && !root_.refused_some()) {
      fail(ErrorCode::kEmptyClass,
           (empty_.size() == 1 ? "a class has no images: " : "several classes have no images: ") +
               runner::listed(empty_, kListedFiles, "'") +
               (not_taken.empty() ? "" : "; " + not_taken),
           help_for_empty());
    }
    if (!unknown_.empty()) {
      const std::string train = "'" + part_folders_[Part::kTrain] + "'";
      fail(ErrorCode::kLabelOutOfRange,
           "class folders that are not in " + train + ": " +
               runner::listed(unknown_, kListedFiles, "'"),
           "classes are identified by the names of the folders in " + train);
    }
  }

  /// If the only folder contains folders, it is probably the root itself.
  std::string help_for_empty() const {
    if (list_.classes.size() == 1 && list_.not_taken.has_folders())
      return "if the folders in it are the classes, set root to '" +
             (root_.path() / empty_.front()).string() + "'";
    return "put " + std::string(runner::kImageEndings) + " files there, or remove the folder";
  }

  void fail(ErrorCode code, std::string message, std::string help) {
    errors_.push_back({code, {}, "", std::move(message), std::move(help)});
  }

  ImageRoot root_;
  ImageList list_;
  std::map<Part, std::string> part_folders_;  // the part folders in the root
  std::vector<std::string> empty_, unknown_;
  std::set<std::string> nameless_, unprintable_;
  std::vector<std::string> unwritable_;  // names of images
  runner::NotTaken passed_over_;         // other files in class folders
  Diagnostics errors_;
};

std::uintmax_t bytes_of_images(const ImageList& list) {
  std::uintmax_t bytes = 0;
  for (const auto& part : list.parts) {
    for (const ImageFile& file : part) {
      const auto state = runner::file_state(list.root / file.name);
      if (state) bytes += state->size;
    }
  }
  return bytes;
}

std::optional<std::string> state_in_a_word(const fs::path& file) {
  const auto state = runner::file_state(file);
  return state ? std::optional(to_text(*state)) : std::nullopt;
}

}  // namespace

void add_names(ImageList& list, std::vector<std::string> names) {
  list.facts = {.fields = {"name"}, .rows = {}};
  for (std::string& name : names) list.facts.rows.push_back({std::move(name)});
  for (auto& part : list.parts) {
    for (ImageFile& file : part) file.facts = file.label;
  }
}

bool is_image_path(std::string_view path) {
  constexpr std::size_t kLongestPath = 1000;
  if (path.empty() || path.size() > kLongestPath || path.front() == '/') return false;
  if (std::ranges::any_of(path, [](unsigned char c) { return c < ' ' || c == 0x7f; })) return false;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    at = end + 1;
  }
  return runner::is_image_name(path.substr(path.rfind('/') + 1));
}

std::string_view name(Part part) {
  switch (part) {
    case Part::kTrain:
      return "train";
    case Part::kValidation:
      return "validation";
    case Part::kTest:
      return "test";
  }
  return "";
}

std::string fingerprint(const ImageList& list) {
  const bool is_read = bytes_of_images(list) <= runner::kLargestContents;
  runner::FileDigests contents;
  runner::Digest digest;
  // Names contain no NUL.
  digest.update(list.annotations + '\n');
  for (const std::string& name : list.classes) digest.update(name + '\0');
  for (const auto& part : list.parts) {
    digest.update("part\n");
    for (const ImageFile& file : part) {
      const fs::path path = list.root / file.name;
      const auto known = is_read ? contents.of(path) : state_in_a_word(path);
      digest.update(file.name + '\0' + std::to_string(file.label) + ' ' +
                    known.value_or("missing") + '\n');
      if (!list.has_label_sets) continue;
      for (const std::int64_t label : list.label_sets[static_cast<std::size_t>(file.label_set)])
        digest.update(std::to_string(label) + ' ');
    }
  }
  return digest.finish();
}

runner::Result<ImageList> list_images(const fs::path& root, bool allow_outside) {
  return FolderLister(root, root, allow_outside).list();
}

runner::Result<ImageList> list_class_folders(const fs::path& folder, const fs::path& bounds,
                                             bool allow_outside,
                                             const std::set<std::string>& only) {
  return FolderLister(folder, bounds, allow_outside).list_classes_alone(only);
}

}  // namespace stages
