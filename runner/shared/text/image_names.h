#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace runner {

/// Does a file's name end as that of an image that is read, .jpg, .jpeg, .png or .webp in any case,
/// and is not hidden?
bool is_image_name(std::string_view name);

/// Does it end as that of an image in a format that is not read, such as .gif or .tiff, and is not
/// hidden?
bool is_other_image_name(std::string_view name);

/// "JPEG, PNG or WebP": what the file of an image may be.
inline constexpr std::string_view kImageFormats = "JPEG, PNG or WebP";
/// ".jpg, .jpeg, .png or .webp".
inline constexpr std::string_view kImageEndings = ".jpg, .jpeg, .png or .webp";

/// Counts what a search for images passes over, so that it can be told.
class NotTaken {
 public:
  /// One that Retort has written, .retort-…, is not told.
  void file(std::string_view name);
  /// A folder in a place where only files are looked at, or a hidden one.
  void folder(std::string_view name);
  /// What another search has passed over.
  void add(const NotTaken& other);

  /// "12 files ignored: 10 .txt, 2 .svg; 1 hidden folder", the most frequent ending first; empty
  /// where there is nothing to tell.
  std::string text() const;
  /// The same of images in other formats alone: "3 .gif, 1 .tiff".
  std::string other_images() const;
  std::int64_t count_other_images() const;

 private:
  std::map<std::string, std::int64_t> endings_,
      other_images_;  // in lower case, with the dot; "" is none
  std::int64_t hidden_files_ = 0, folders_ = 0, hidden_folders_ = 0;
};

}  // namespace runner
