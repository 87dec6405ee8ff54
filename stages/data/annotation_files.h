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

/// The folder of a published set of images: `root` itself if it contains the file or folder `sign`,
/// else `root`/`inner` if that is a folder; else nullopt.
std::optional<std::filesystem::path> published_folder(const std::filesystem::path& root,
                                                      const std::string& inner,
                                                      const std::string& sign);

/// The annotation files of a published set of images. Reads them whole, computes their digest, and
/// collects their errors.
class AnnotationFiles {
 public:
  /// `help` says what to do about a fault.
  explicit AnnotationFiles(std::filesystem::path folder,
                           std::string help = "use the file as published")
      : folder_(std::move(folder)), help_(std::move(help)) {}

  bool has(const std::string& name) const;
  /// The file's bytes; nullopt, and an error, if it is missing, not a regular file, or larger than
  /// `limit`.
  std::optional<std::string> read(const std::string& name, std::size_t limit);
  /// The same, line by line. Each line comes with its number, counted from one, and without its
  /// end, "\n" or "\r\n".
  void for_lines(const std::string& name, std::size_t limit,
                 const std::function<void(std::size_t number, std::string_view line)>& use);

  /// Adds an error: "'data/images.txt': `what`". After ten errors in one file, more are only
  /// counted.
  void fault(const std::string& name, const std::string& what);
  /// The same with a line number, counted from one: "'data/images.txt', line 3: `what`".
  void fault(const std::string& name, std::size_t line, const std::string& what);

  bool is_faultless() const { return faults_.empty(); }
  /// All of them, in order.
  runner::Diagnostics errors() const;
  /// SHA-256 of everything that was read. Call it once, last.
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

/// The contents of a list of images and their classes. Whether the files exist is not checked.
struct ListedImages {
  std::vector<std::string> paths;    ///< as written
  std::vector<std::int64_t> labels;  ///< of each path; an index into `classes`
  std::vector<std::size_t> lines;    ///< the line of each path, counted from one
  std::vector<std::string> classes;  ///< distinct names of the labels that occur
  bool is_named = true;  ///< false: the list has no names, and class numbers are used as names
};

/// The largest list that is read.
inline constexpr std::size_t kMaxListBytes = std::size_t{128} << 20;

/// Reads {"label_names": [...], "image_names": [...], "image_labels": [...]}, as CloserLookFewShot
/// and its descendants write it; other keys are ignored. The classes are the labels that occur, in
/// their order. A class gets the name at its label's position; if there are as many names as labels
/// that occur, these names in order; without any names, its number. Errors are added to `files`,
/// and the result is then not usable; a list without images is not an error.
ListedImages read_filelist(AnnotationFiles& files, const std::string& name);

/// Reads a table whose header line has the columns `filename` and `label`, among others. The
/// classes are the labels, sorted bytewise. Reports errors in the same way.
ListedImages read_split_csv(AnnotationFiles& files, const std::string& name);

}  // namespace stages
