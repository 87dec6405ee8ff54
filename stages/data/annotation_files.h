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

/// The folder of a published set of images: `root` itself where the file or folder `sign` is in it,
/// else `root`/`inner` where that is a folder; nullopt where neither is.
std::optional<std::filesystem::path> published_folder(const std::filesystem::path& root,
                                                      const std::string& inner,
                                                      const std::string& sign);

/// The files beside a published set of images that say what they show. Reads them whole, takes
/// their digest, and collects what is wrong with them.
class AnnotationFiles {
 public:
  /// `help` is what to do about a fault.
  explicit AnnotationFiles(std::filesystem::path folder,
                           std::string help = "use the file as published")
      : folder_(std::move(folder)), help_(std::move(help)) {}

  bool has(const std::string& name) const;
  /// The file's bytes; nullopt, and an error, where it is not there, no regular file, or larger
  /// than `limit`.
  std::optional<std::string> read(const std::string& name, std::size_t limit);
  /// The same, line by line, each with its number, counted from one, and without its end, "\n" or
  /// "\r\n".
  void for_lines(const std::string& name, std::size_t limit,
                 const std::function<void(std::size_t number, std::string_view line)>& use);

  /// Adds an error: "'data/images.txt': `what`". After the tenth of one file they are only counted.
  void fault(const std::string& name, const std::string& what);
  /// The same at a line, counted from one: "'data/images.txt', line 3: `what`".
  void fault(const std::string& name, std::size_t line, const std::string& what);

  bool is_faultless() const { return faults_.empty(); }
  /// All of them, in order.
  runner::Diagnostics errors() const;
  /// SHA-256 of all that was read; to be asked once, last.
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

/// What a list of images for few-shot learning says, line by line: nothing of it has been looked
/// for.
struct ListedImages {
  std::vector<std::string> paths;    ///< as written
  std::vector<std::int64_t> labels;  ///< of each path; a position in `classes`
  std::vector<std::size_t> lines;    ///< where each path stands, counted from one
  std::vector<std::string> classes;  ///< names of the labels that occur, none twice
  bool is_named =
      true;  ///< false: the list has no names, and the classes are called by their numbers
};

/// The largest list that is read.
inline constexpr std::size_t kMaxListBytes = std::size_t{128} << 20;

/// Reads {"label_names": [...], "image_names": [...], "image_labels": [...]}, as CloserLookFewShot
/// and its descendants write it; other keys are passed over. Its classes are the labels that occur,
/// in their order. They are called by the names at their positions; where there are as many names
/// as labels that occur, by these in order; without any names, by their numbers. What is wrong ends
/// up in `files`, and the result is then of no use; a list without images is not.
ListedImages read_filelist(AnnotationFiles& files, const std::string& name);

/// Reads a table whose first line names its columns, `filename` and `label` among them, as
/// meta-learning-lstm has for miniImagenet. Its classes are the labels, sorted bytewise. Faults are
/// told in the same way.
ListedImages read_split_csv(AnnotationFiles& files, const std::string& name);

}  // namespace stages
