#include "stages/data/image_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "runner/shared/text/image_names.h"
#include "stages/data/exif.h"
#include "stages/data/jpeg_reader.h"
#include "stages/data/png_reader.h"
#include "stages/data/webp_reader.h"

namespace stages {
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

/// How a file in a format begins; a '?' stands for any byte.
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
    throw ImageError(ErrorCode::kUnsupportedImage, "it is " + std::string(format) + " image, an unsupported format");
  }
  throw ImageError(ErrorCode::kUnsupportedImage, "it is not " + std::string(runner::kImageFormats));
}

}  // namespace

std::vector<std::uint8_t> read_image_file(const std::filesystem::path& path) {
  // Without O_NONBLOCK a named pipe would wait for ever.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) throw ImageError(ErrorCode::kMissingImage, cause_of(errno));
  struct stat status {};
  if (::fstat(file.number, &status) != 0) throw ImageError(ErrorCode::kMissingImage, cause_of(errno));
  if (!S_ISREG(status.st_mode)) throw ImageError(ErrorCode::kMissingImage, "it is not a file");
  if (status.st_size > kMaxFileBytes) throw ImageError(ErrorCode::kImageTooLarge, "the file is larger than 1 GiB");
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(file.number, bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw ImageError(ErrorCode::kMissingImage, cause_of(errno));
    if (got == 0) break;  // it has shrunk since
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

int smallest_eighths(Bytes file, const ImageHeader& header, std::int64_t width, std::int64_t height) {
  if (format_of(file) != Format::kJpeg) return 8;
  const auto at_least = [](std::int64_t full, std::int64_t wanted, int eighths) {
    return (full * eighths + 7) / 8 >= wanted;
  };
  int eighths = 1;
  while (eighths < 8 &&
         !(at_least(header.shown_width(), width, eighths) && at_least(header.shown_height(), height, eighths)))
    ++eighths;
  return eighths;
}

}  // namespace stages
