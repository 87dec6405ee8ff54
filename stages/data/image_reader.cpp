#include "stages/data/image_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include "stages/data/exif.h"
#include "stages/data/jpeg_reader.h"
#include "stages/data/png_reader.h"

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

enum class Format { kJpeg, kPng };

Format format_of(Bytes file) {
  using namespace std::string_view_literals;
  const auto starts_with = [&](std::string_view text) {
    return file.size() >= text.size() && std::memcmp(file.data(), text.data(), text.size()) == 0;
  };
  if (file.empty()) throw ImageError(ErrorCode::kCorruptImage, "the file is empty");
  if (starts_with("\xFF\xD8\xFF"sv)) return Format::kJpeg;
  if (starts_with("\x89PNG\r\n\x1a\n"sv)) return Format::kPng;
  throw ImageError(ErrorCode::kUnsupportedImage, "it is neither JPEG nor PNG");
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
  }
  return {};
}

Image decode_image(Bytes file, int eighths) {
  switch (format_of(file)) {
    case Format::kJpeg:
      return oriented(decode_jpeg(file, eighths), jpeg_orientation(file));
    case Format::kPng:
      return oriented(decode_png(file), png_orientation(file));
  }
  return {};
}

int smallest_eighths(Bytes file, const ImageHeader& header, std::int64_t width, std::int64_t height) {
  if (format_of(file) == Format::kPng) return 8;
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
