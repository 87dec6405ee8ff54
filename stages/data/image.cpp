#include "stages/data/image.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <png.h>
#include <sys/stat.h>
#include <unistd.h>
#include <webp/decode.h>

#include "runner/shared/text/image_names.h"
#include "stages/data/jpeg_reader.h"

namespace stages {

void check_size(std::int64_t width, std::int64_t height) {
  const std::string size = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (width <= 0 || height <= 0)
    throw ImageError(runner::ErrorCode::kCorruptImage, "it has " + size);
  if (width > kMaxSide || height > kMaxSide || width > kMaxPixels / height) {
    throw ImageError(runner::ErrorCode::kImageTooLarge,
                     "it has " + size + ", more than 178 million");
  }
}

Image oriented(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const bool turned = orientation >= 5;
  Image result =
      Image::unset(turned ? image.height : image.width, turned ? image.width : image.height);
  // Pixel (x, y) of the result comes from the source offset start + x·right + y·down.
  const std::ptrdiff_t column = 3;
  const std::ptrdiff_t row = column * image.width;
  const std::ptrdiff_t last_column = column * (image.width - 1);
  const std::ptrdiff_t last_row = row * (image.height - 1);
  struct Walk {
    std::ptrdiff_t start, right, down;
  };
  const std::array<Walk, 7> walks = {{
      {last_column, -column, row},              // 2: mirrored
      {last_row + last_column, -column, -row},  // 3: upside down
      {last_row, column, -row},                 // 4: mirrored, upside down
      {0, row, column},                         // 5: mirrored across the main diagonal
      {last_row, -row, column},                 // 6: rotated clockwise
      {last_row + last_column, -row, -column},  // 7: mirrored across the other diagonal
      {last_column, row, -column},              // 8: rotated counterclockwise
  }};
  const Walk walk = walks[static_cast<std::size_t>(orientation - 2)];
  for (int y = 0; y < result.height; ++y) {
    const std::uint8_t* from = image.pixels.data() + walk.start + walk.down * y;
    std::uint8_t* to = result.row(y);
    for (int x = 0; x < result.width; ++x, to += 3, from += walk.right) {
      to[0] = from[0];
      to[1] = from[1];
      to[2] = from[2];
    }
  }
  return result;
}

namespace {

std::int64_t cost(const KeptImage& kept) {
  return static_cast<std::int64_t>(kept.image->pixels.size()) + ImageCache::kOverhead;
}

}  // namespace

std::optional<KeptImage> ImageCache::find(std::uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto found = images_.find(key);
  return found == images_.end() ? std::nullopt : std::optional(found->second);
}

bool ImageCache::put(std::uint64_t key, KeptImage image) {
  const std::int64_t bytes = cost(image);
  const std::lock_guard lock(mutex_);
  if (images_.contains(key)) return true;
  if (bytes > limit_bytes_ - bytes_) return false;
  images_.emplace(key, std::move(image));
  bytes_ += bytes;
  return true;
}

std::int64_t ImageCache::limit_bytes() const {
  const std::lock_guard lock(mutex_);
  return limit_bytes_;
}

void ImageCache::set_limit(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_bytes_ = bytes;
  while (bytes_ > limit_bytes_ && !images_.empty()) {
    bytes_ -= cost(images_.begin()->second);
    images_.erase(images_.begin());
  }
}

namespace {

using runner::ErrorCode;

constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 30;

struct FileDescriptor {
  explicit FileDescriptor(int number) : number(number) {}
  ~FileDescriptor() {
    if (number >= 0) ::close(number);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  const int number;
};

std::string cause_of(int error) { return std::generic_category().message(error); }

enum class Format { kJpeg, kPng, kWebp };

/// The signature of a file format; '?' matches any byte.
struct Signature {
  std::string_view start, format;
};

using namespace std::string_view_literals;
constexpr std::array<Signature, 11> kOtherFormats = {{{"GIF8"sv, "a GIF"},
                                                      {"BM????\0\0\0\0"sv, "a BMP"},
                                                      {"II\x2a\0"sv, "a TIFF"},
                                                      {"MM\0\x2a"sv, "a TIFF"},
                                                      {"????ftypavif"sv, "an AVIF"},
                                                      {"????ftyphei"sv, "a HEIC"},
                                                      {"????ftypmif1"sv, "a HEIC"},
                                                      {"\0\0\0\x0cJXL "sv, "a JPEG XL"},
                                                      {"\xFF\x0a"sv, "a JPEG XL"},
                                                      {"\0\0\0\x0cjP  "sv, "a JPEG 2000"},
                                                      {"8BPS"sv, "a Photoshop"}}};

bool begins_as(Bytes file, std::string_view start) {
  if (file.size() < start.size()) return false;
  for (std::size_t i = 0; i < start.size(); ++i) {
    if (start[i] != '?' && file[i] != static_cast<std::uint8_t>(start[i])) return false;
  }
  return true;
}

Format format_of(Bytes file) {
  if (file.empty()) throw ImageError(ErrorCode::kCorruptImage, "the file is empty");
  if (begins_as(file, "\xFF\xD8\xFF"sv)) return Format::kJpeg;
  if (begins_as(file, "\x89PNG\r\n\x1a\n"sv)) return Format::kPng;
  if (begins_as(file, "RIFF????WEBP"sv)) return Format::kWebp;
  for (const auto& [start, format] : kOtherFormats) {
    if (!begins_as(file, start)) continue;
    throw ImageError(ErrorCode::kUnsupportedImage,
                     "it is " + std::string(format) + " image, an unsupported format");
  }
  throw ImageError(ErrorCode::kUnsupportedImage, "it is not " + std::string(runner::kImageFormats));
}

}  // namespace

std::vector<std::uint8_t> read_image_file(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a named pipe would block forever.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) throw ImageError(ErrorCode::kMissingImage, cause_of(errno));
  struct stat status {};
  if (::fstat(file.number, &status) != 0)
    throw ImageError(ErrorCode::kMissingImage, cause_of(errno));
  if (!S_ISREG(status.st_mode)) throw ImageError(ErrorCode::kMissingImage, "it is not a file");
  if (status.st_size > kMaxFileBytes)
    throw ImageError(ErrorCode::kImageTooLarge, "the file is larger than 1 GiB");
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(file.number, bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw ImageError(ErrorCode::kMissingImage, cause_of(errno));
    if (got == 0) break;  // the file has shrunk
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

ImageHeader read_image_header(Bytes file) {
  switch (format_of(file)) {
    case Format::kJpeg:
      return read_jpeg_header(file);
    case Format::kPng:
      return read_png_header(file);
    case Format::kWebp:
      return read_webp_header(file);
  }
  return {};
}

bool has_16_bits(Bytes file) {
  constexpr std::size_t kBitDepth = 24;  // after the signature, the chunk's start and the size
  return file.size() > kBitDepth && format_of(file) == Format::kPng && file[kBitDepth] == 16;
}

Image decode_image(Bytes file, int eighths) {
  switch (format_of(file)) {
    case Format::kJpeg:
      return oriented(decode_jpeg(file, eighths), jpeg_orientation(file));
    case Format::kPng:
      return oriented(decode_png(file), png_orientation(file));
    case Format::kWebp:
      return oriented(decode_webp(file), webp_orientation(file));
  }
  return {};
}

int smallest_eighths(Bytes file, const ImageHeader& header, std::int64_t width,
                     std::int64_t height) {
  if (format_of(file) != Format::kJpeg) return 8;
  const auto at_least = [](std::int64_t full, std::int64_t wanted, int eighths) {
    return (full * eighths + 7) / 8 >= wanted;
  };
  int eighths = 1;
  while (eighths < 8 && !(at_least(header.shown_width(), width, eighths) &&
                          at_least(header.shown_height(), height, eighths)))
    ++eighths;
  return eighths;
}

namespace {

[[noreturn]] void throw_webp_error(VP8StatusCode status) {
  using runner::ErrorCode;
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      throw ImageError(ErrorCode::kCorruptImage, "the file is truncated");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      throw ImageError(ErrorCode::kUnsupportedImage, "it is an unsupported kind of WebP");
    case VP8_STATUS_OUT_OF_MEMORY:
      throw ImageError(ErrorCode::kImageTooLarge, "there is not enough memory to decode it");
    case VP8_STATUS_OK:
    case VP8_STATUS_INVALID_PARAM:
    case VP8_STATUS_BITSTREAM_ERROR:
    case VP8_STATUS_USER_ABORT:
      break;
  }
  throw ImageError(ErrorCode::kCorruptImage, "its WebP data is damaged");
}

}  // namespace

ImageHeader read_webp_header(Bytes file) {
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(file.data(), file.size(), &features);
  if (status != VP8_STATUS_OK) throw_webp_error(status);
  check_size(features.width, features.height);
  if (features.has_animation)
    throw ImageError(runner::ErrorCode::kUnsupportedImage,
                     "it is an animated WebP, which is not supported");
  return {features.width, features.height, webp_orientation(file)};
}

Image decode_webp(Bytes file) {
  const ImageHeader header = read_webp_header(file);
  Image image = Image::unset(header.width, header.height);
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config))
    throw ImageError(runner::ErrorCode::kUnsupportedImage,
                     "the libwebp version is not the one that Retort was built with");
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {
      .rgba = image.pixels.data(), .stride = 3 * image.width, .size = image.pixels.size()};
  const VP8StatusCode status = WebPDecode(file.data(), file.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) throw_webp_error(status);
  return image;
}

namespace {

/// The libpng decoder and its source. libpng reports errors with longjmp, which must not skip
/// frames with destructors.
struct PngDecoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  Bytes rest;
  char message[200] = {};
};

[[noreturn]] void fail(png_structp png, png_const_charp message) {
  auto& decoder = *static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::snprintf(decoder.message, sizeof decoder.message, "%s", message);
  png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {
}  // warnings concern optional chunks, or come after the last pixel

void take(png_structp png, png_bytep to, std::size_t size) {
  Bytes& rest = static_cast<PngDecoder*>(png_get_io_ptr(png))->rest;
  if (size > rest.size()) png_error(png, "the file is truncated");
  std::memcpy(to, rest.data(), size);
  rest = rest.subspan(size);
}

/// Reads everything before the pixels and requests 8-bit RGB. On failure, returns false and sets
/// `message`.
bool open(PngDecoder& decoder) {
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, fail, ignore_warning);
  if (!decoder.png) return false;
  decoder.info = png_create_info_struct(decoder.png);
  if (!decoder.info) return false;
  png_structp png = decoder.png;
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_read_fn(png, &decoder, take);
  png_set_user_limits(png, static_cast<png_uint_32>(kMaxSide), static_cast<png_uint_32>(kMaxSide));
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr,
                              -1);  // optional chunks are not parsed
  png_read_info(png, decoder.info);
  const int color = png_get_color_type(png, decoder.info);
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (!(color & PNG_COLOR_MASK_COLOR)) {
    png_set_expand_gray_1_2_4_to_8(png);
    png_set_gray_to_rgb(png);
  }
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, decoder.info);
  return true;
}

/// Reads all rows. Returns false on failure.
bool read_rows(PngDecoder& decoder, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder.png))) return false;
  png_read_image(decoder.png, rows);
  return true;
}

[[noreturn]] void throw_png_error(const PngDecoder& decoder) {
  const bool said = decoder.message[0] != '\0';
  throw ImageError(runner::ErrorCode::kCorruptImage,
                   said ? decoder.message : "cannot initialize libpng");
}

/// Owns the memory that libpng allocates while a file is open.
class OpenPng {
 public:
  explicit OpenPng(Bytes file) {
    decoder.rest = file;
    if (open(decoder)) return;
    png_destroy_read_struct(&decoder.png, &decoder.info, nullptr);
    throw_png_error(decoder);
  }
  ~OpenPng() { png_destroy_read_struct(&decoder.png, &decoder.info, nullptr); }
  OpenPng(const OpenPng&) = delete;
  OpenPng& operator=(const OpenPng&) = delete;

  PngDecoder decoder;
};

}  // namespace

ImageHeader read_png_header(Bytes file) {
  // Reads the size by hand, since libpng's error message does not contain it: width and height
  // follow the signature and the first chunk's length and name.
  if (file.size() < 24 || std::memcmp(file.data() + 12, "IHDR", 4) != 0) {
    throw ImageError(runner::ErrorCode::kCorruptImage, "the header is missing");
  }
  const std::int64_t width = png_get_uint_32(file.data() + 16),
                     height = png_get_uint_32(file.data() + 20);
  check_size(width, height);
  return {static_cast<int>(width), static_cast<int>(height), png_orientation(file)};
}

Image decode_png(Bytes file) {
  const ImageHeader header = read_png_header(file);
  OpenPng opened(file);
  PngDecoder& decoder = opened.decoder;
  Image image = Image::unset(header.width, header.height);
  if (png_get_rowbytes(decoder.png, decoder.info) !=
      std::size_t{3} * static_cast<std::size_t>(image.width)) {
    throw ImageError(runner::ErrorCode::kUnsupportedImage, "its pixels cannot be converted to RGB");
  }
  std::vector<png_bytep> rows(static_cast<std::size_t>(image.height));
  for (int y = 0; y < image.height; ++y) rows[static_cast<std::size_t>(y)] = image.row(y);
  if (!read_rows(decoder, rows.data())) throw_png_error(decoder);
  return image;
}

Image cropped(const Image& image, const Box& box) {
  Image part = Image::unset(box.width, box.height);
  for (int row = 0; row < box.height; ++row)
    std::copy_n(image.row(box.top + row) + std::ptrdiff_t{3} * box.left,
                std::ptrdiff_t{3} * box.width, part.row(row));
  return part;
}

}  // namespace stages
