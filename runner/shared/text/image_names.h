#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace runner {

/// True if the file name ends in .jpg, .jpeg, .png or .webp, in any case, and is not hidden: an
/// image format that Retort reads.
bool is_image_name(std::string_view name);

/// True if the file name ends like an image in an unsupported format, such as .gif or .tiff, and is
/// not hidden.
bool is_other_image_name(std::string_view name);

/// "JPEG, PNG or WebP": the supported image formats.
inline constexpr std::string_view kImageFormats = "JPEG, PNG or WebP";
/// ".jpg, .jpeg, .png or .webp".
inline constexpr std::string_view kImageEndings = ".jpg, .jpeg, .png or .webp";

/// Counts the entries that a search for images skips, for reporting.
class NotTaken {
 public:
  /// Does not count files that Retort has written, .retort-….
  void file(std::string_view name);
  /// A hidden folder, or one in a place where only files are expected.
  void folder(std::string_view name);
  /// Adds the counts of another search.
  void add(const NotTaken& other);

  /// "12 files ignored: 10 .txt, 2 .svg; 1 hidden folder", the most frequent ending first; empty if
  /// there is nothing to report.
  std::string text() const;
  /// The same for images in unsupported formats only: "3 .gif, 1 .tiff".
  std::string other_images() const;
  std::int64_t count_other_images() const;

 private:
  std::map<std::string, std::int64_t> endings_,
      other_images_;  // in lower case, with the dot; "" for no ending
  std::int64_t hidden_files_ = 0, folders_ = 0, hidden_folders_ = 0;
};

}  // namespace runner
