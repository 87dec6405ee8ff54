#pragma once

#include <filesystem>

#include "stages/data/image.h"

namespace stages {

/// The whole file. Throws ImageError: kMissingImage when it cannot be opened or is no regular file, kImageTooLarge
/// above 1 GiB.
std::vector<std::uint8_t> read_image_file(const std::filesystem::path& path);

/// Size and orientation of a JPEG, PNG or WebP file, told apart by their first bytes, whatever the file's name.
/// Throws ImageError: kUnsupportedImage for anything else, kCorruptImage, kImageTooLarge.
ImageHeader read_image_header(Bytes file);

/// The picture in a JPEG, PNG or WebP file, as it is to be seen (EXIF orientation applied). A JPEG may be decoded at
/// `eighths`/8 of its size; the others have their full size always. Throws ImageError.
Image decode_image(Bytes file, int eighths = 8);

/// The smallest number of eighths at which `file` still has at least `width` x `height` pixels as seen; 8 for what is
/// no JPEG.
int smallest_eighths(Bytes file, const ImageHeader& header, std::int64_t width, std::int64_t height);

}  // namespace stages
