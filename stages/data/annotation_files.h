#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/disk/digest.h"
#include "runner/shared/error/diagnostic.h"

namespace stages {

/// Finds the folder of a published image dataset. Returns `root` if it contains a file or folder
/// named `sign`; otherwise `root`/`inner` if that is a folder; otherwise nullopt.
std::optional<std::filesystem::path> published_folder(const std::filesystem::path& root,
                                                      const std::string& inner,
                                                      const std::string& sign);

/// The annotation files of an image dataset. Reads each file as a whole, computes one digest of
/// them all, and collects errors.
class AnnotationFiles {
 public:
  /// `help` is the advice shown with each error.
  explicit AnnotationFiles(std::filesystem::path folder,
                           std::string help = "use the file as published")
      : folder_(std::move(folder)), help_(std::move(help)) {}

  bool has(const std::string& name) const;
  /// Returns the file's bytes. Adds an error and returns nullopt if the file is missing,
  /// unreadable, not a regular file, larger than `limit`, or not plain text (compressed or UTF-16,
  /// for example).
  std::optional<std::string> read(const std::string& name, std::size_t limit);
  /// Reads the file like read() and calls `use` for each line, without the line ending ("\n" or
  /// "\r\n"). Line numbers start at one.
  void for_lines(const std::string& name, std::size_t limit,
                 const std::function<void(std::size_t number, std::string_view line)>& use);

  /// Adds an error: "'data/images.txt': `what`". After ten errors in one file, further ones are
  /// only counted.
  void fault(const std::string& name, const std::string& what);
  /// Adds an error with a line number (starting at one): "'data/images.txt', line 3: `what`".
  void fault(const std::string& name, std::size_t line, const std::string& what);

  bool is_faultless() const { return faults_.empty(); }
  /// Returns all errors, in the order they were added.
  runner::Diagnostics errors() const;
  /// Returns the SHA-256 of all bytes read. Call this once, after the last read.
  std::string digest() { return sha256_.finish(); }

 private:
  struct Faults {
    std::string name;
    runner::Diagnostics first;
    std::size_t more = 0;
  };
  void add(const std::string& name, runner::ErrorCode code, std::string message, std::string help);

  std::filesystem::path folder_;
  std::string help_;
  std::vector<Faults> faults_;
  runner::Digest sha256_;
};

/// The contents of a list of images and their classes. The image files need not exist.
struct ListedImages {
  std::vector<std::string> paths;    ///< as written
  std::vector<std::int64_t> labels;  ///< for each path, an index into `classes`
  std::vector<std::size_t> lines;    ///< the line number of each path, starting at one
  std::vector<std::string> classes;  ///< the distinct class names that occur
  bool is_named = true;  ///< false: the list has no names, and class numbers are used as names
};

/// Larger lists are rejected.
inline constexpr std::size_t kMaxListBytes = std::size_t{128} << 20;

/// Reads {"label_names": [...], "image_names": [...], "image_labels": [...]}, the format of
/// CloserLookFewShot and its descendants; other keys are ignored. The classes are the distinct
/// labels, in ascending order. A class's name is the entry at the index given by its label, except
/// that the names are assigned in order if there are exactly as many as classes. Without names, the
/// class numbers serve as names. Errors are added to `files` and make the result unusable. An empty
/// list is not an error.
ListedImages read_filelist(AnnotationFiles& files, const std::string& name);

/// Reads a table with the columns `filename` and `label`; other columns are ignored. The classes
/// are the distinct labels, sorted bytewise. Reports errors like read_filelist().
ListedImages read_split_csv(AnnotationFiles& files, const std::string& name);

}  // namespace stages
