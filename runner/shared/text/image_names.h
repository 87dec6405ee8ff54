#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace runner {

/// True if `name` has the extension of an image format that Retort reads (.jpg, .jpeg, .png or
/// .webp, in upper or lower case) and is not hidden.
bool is_image_name(std::string_view name);

/// True if `name` has the extension of an unsupported image format, such as .gif or .tiff, and is
/// not hidden.
bool is_other_image_name(std::string_view name);

/// "JPEG, PNG or WebP": the supported image formats.
inline constexpr std::string_view kImageFormats = "JPEG, PNG or WebP";
/// The file extensions of the supported formats.
inline constexpr std::string_view kImageEndings = ".jpg, .jpeg, .png or .webp";

/// Counts the entries skipped by an image search, for reporting.
class NotTaken {
 public:
  /// Counts a file that is not read. Ignores files that Retort itself wrote (.retort-…).
  void file(std::string_view name);
  /// Counts a folder that is not searched: a hidden folder, or one where only files are expected.
  void folder(std::string_view name);
  /// Adds the counts of another search.
  void add(const NotTaken& other);

  /// Describes what was skipped, most common extension first: "12 files ignored: 10 .txt, 2 .svg; 1
  /// hidden folder". Empty if nothing was skipped.
  std::string text() const;
  /// Lists only the images in unsupported formats: "3 .gif, 1 .tiff".
  std::string other_images() const;
  std::int64_t count_other_images() const;
  bool has_folders() const { return folders_ > 0; }

 private:
  std::map<std::string, std::int64_t> endings_,
      other_images_;  // by extension in lower case, with the dot; "" for no extension
  std::int64_t hidden_files_ = 0, folders_ = 0, hidden_folders_ = 0;
};

}  // namespace runner
