#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runner/shared/error/error_code.h"

namespace stages {

/// An allocator for pixels that leaves them uninitialized, since zeroing them costs a decoder 2%
/// of its time. The storage never starts at a multiple of 32 bytes. At such addresses libjpeg-turbo
/// bypasses the caches when it writes, and reading the pixels back then waits for memory, which
/// costs a seventh of the decoding and resizing time.
template <typename T>
struct Unset : std::allocator<T> {
  template <typename Other>
  struct rebind {
    using other = Unset<Other>;
  };
  static constexpr std::align_val_t kAvoided{32};
  static constexpr std::size_t kAfter = 16;
  T* allocate(std::size_t count) {
    return reinterpret_cast<T*>(
        static_cast<char*>(::operator new(count * sizeof(T) + kAfter, kAvoided)) + kAfter);
  }
  void deallocate(T* place, std::size_t) noexcept {
    ::operator delete(reinterpret_cast<char*>(place) - kAfter, kAvoided);
  }
  void construct(T*) noexcept {}
  template <typename... Arguments>
  void construct(T* place, Arguments&&... arguments) {
    std::construct_at(place, std::forward<Arguments>(arguments)...);
  }
};

using Pixels = std::vector<std::uint8_t, Unset<std::uint8_t>>;

/// An 8-bit RGB image: rows from top to bottom, three bytes per pixel, no padding. An image
/// constructed from a size is black.
struct Image {
  Image() = default;
  Image(int width, int height)
      : width(width),
        height(height),
        pixels(std::size_t{3} * static_cast<std::size_t>(width) * static_cast<std::size_t>(height),
               0) {}

  /// Returns an image with uninitialized pixels, for callers that write every pixel.
  static Image unset(int width, int height) {
    Image image;
    image.width = width;
    image.height = height;
    image.pixels.resize(std::size_t{3} * static_cast<std::size_t>(width) *
                        static_cast<std::size_t>(height));
    return image;
  }

  std::uint8_t* row(int y) {
    return pixels.data() +
           std::size_t{3} * static_cast<std::size_t>(width) * static_cast<std::size_t>(y);
  }
  const std::uint8_t* row(int y) const { return const_cast<Image*>(this)->row(y); }

  int width = 0, height = 0;
  Pixels pixels;
};

/// A rectangle of pixels: left and top edge, then size.
struct Box {
  int left = 0, top = 0, width = 0, height = 0;
  bool operator==(const Box&) const = default;
};

/// Returns the pixels of `image` in `box`, which must be within the image.
Image cropped(const Image& image, const Box& box);

/// The size and orientation of an image, read from the file's header without decoding pixels.
struct ImageHeader {
  int width = 0, height = 0;  ///< as stored, before `orientation` is applied
  int orientation = 1;        ///< the EXIF orientation, 1 to 8

  bool turned() const { return orientation >= 5; }  ///< width and height are swapped
  int shown_width() const { return turned() ? height : width; }
  int shown_height() const { return turned() ? width : height; }
};

/// The contents of an image file.
using Bytes = std::span<const std::uint8_t>;

/// Images with more pixels are rejected before memory is allocated for them.
inline constexpr std::int64_t kMaxPixels = 178'000'000;
/// Images with a longer side are rejected.
inline constexpr std::int64_t kMaxSide = 1'000'000;

/// Thrown for an image that cannot be read. what() is the cause; the caller adds the file's name.
struct ImageError : std::runtime_error {
  ImageError(runner::ErrorCode code, const std::string& cause)
      : std::runtime_error(cause), code(code) {}
  runner::ErrorCode code;
};

/// Throws ImageError for an image without pixels (kCorruptImage) or with too many (kImageTooLarge).
void check_size(std::int64_t width, std::int64_t height);

/// Returns the image turned upright, given its EXIF orientation, 1 to 8.
Image oriented(Image image, int orientation);

/// A cached image, decoded and possibly cut to size.
struct KeptImage {
  std::shared_ptr<const Image> image;
  int width = 0, height = 0;  ///< dimensions of the whole upright image
};

/// Caches images on first use until `limit_bytes` are used. Entries are never evicted to make room
/// for new ones: with eviction, a pass over more images than fit would never hit the cache.
/// Thread-safe.
class ImageCache {
 public:
  /// An upper bound on an entry's size in bytes, not counting its pixels.
  static constexpr std::int64_t kOverhead = 256;

  explicit ImageCache(std::int64_t limit_bytes) : ImageCache(limit_bytes, limit_bytes) {}
  /// `most_bytes` is the largest limit that may be set later.
  ImageCache(std::int64_t limit_bytes, std::int64_t most_bytes)
      : most_bytes_(most_bytes), limit_bytes_(limit_bytes) {}

  /// Returns the cached image; nullopt if there is none.
  std::optional<KeptImage> find(std::uint64_t key) const;
  /// Caches the image if there is room. Returns whether it was cached.
  bool put(std::uint64_t key, KeptImage image);

  std::int64_t most_bytes() const { return most_bytes_; }
  std::int64_t limit_bytes() const;
  /// Sets the limit, and evicts images that no longer fit.
  void set_limit(std::int64_t bytes);

 private:
  const std::int64_t most_bytes_;
  mutable std::mutex mutex_;
  std::int64_t limit_bytes_;
  std::int64_t bytes_ = 0;
  std::unordered_map<std::uint64_t, KeptImage> images_;
};

/// Returns the contents of a file. Throws ImageError: kMissingImage if it cannot be opened or is
/// not a regular file, kImageTooLarge if it is larger than 1 GiB.
std::vector<std::uint8_t> read_image_file(const std::filesystem::path& path);

/// Returns the size and orientation of a JPEG, PNG or WebP file. The format is detected from the
/// first bytes, not from the file name. Throws ImageError: kUnsupportedImage for other formats,
/// kCorruptImage, kImageTooLarge.
ImageHeader read_image_header(Bytes file);

/// Decodes a JPEG, PNG or WebP file and turns the image upright according to its EXIF orientation.
/// A JPEG may be decoded at `eighths`/8 of its size; other formats are always decoded at full size.
/// Throws ImageError.
Image decode_image(Bytes file, int eighths = 8);

/// True if the file is a PNG with 16 bits per channel, of which decode_image() drops the lower 8.
bool has_16_bits(Bytes file);

/// Returns the smallest number of eighths at which the upright image still has at least `width` x
/// `height` pixels; 8 if `file` is not a JPEG.
int smallest_eighths(Bytes file, const ImageHeader& header, std::int64_t width,
                     std::int64_t height);

/// Returns the size and orientation of a WebP file. Throws ImageError: kUnsupportedImage for an
/// animation.
ImageHeader read_webp_header(Bytes file);

/// Decodes a WebP file without applying its orientation. The alpha channel is dropped without
/// compositing; color profiles are ignored. Throws ImageError.
Image decode_webp(Bytes file);

/// Returns the size and orientation of a PNG file. Throws ImageError.
ImageHeader read_png_header(Bytes file);

/// Decodes a PNG file without applying its orientation. Palettes are expanded, gray is copied to
/// all channels, and the alpha channel is dropped without compositing. Samples of 16 bits are
/// reduced to their high byte, as Pillow does for color (it clips gray values above 255 instead).
/// Gamma and color profiles are ignored. Throws ImageError.
Image decode_png(Bytes file);

}  // namespace stages
