#include "stages/data/png_reader.h"

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <png.h>

#include "stages/data/exif.h"

namespace stages {
namespace {

/// The decoder and its source. libpng is C: it leaves by longjmp, over frames without destructors only.
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

void ignore_warning(png_structp, png_const_charp) {}  // of optional chunks, or where the pixels are whole

void take(png_structp png, png_bytep to, std::size_t size) {
  Bytes& rest = static_cast<PngDecoder*>(png_get_io_ptr(png))->rest;
  if (size > rest.size()) png_error(png, "the file ends too early");
  std::memcpy(to, rest.data(), size);
  rest = rest.subspan(size);
}

/// Reads up to the pixels and asks for 8-bit RGB. False, and `message` set, on failure.
bool open(PngDecoder& decoder) {
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, fail, ignore_warning);
  if (!decoder.png) return false;
  decoder.info = png_create_info_struct(decoder.png);
  if (!decoder.info) return false;
  png_structp png = decoder.png;
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_read_fn(png, &decoder, take);
  png_set_user_limits(png, static_cast<png_uint_32>(kMaxSide), static_cast<png_uint_32>(kMaxSide));
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // nothing optional is parsed
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

/// False on failure.
bool read_rows(PngDecoder& decoder, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder.png))) return false;
  png_read_image(decoder.png, rows);
  return true;
}

[[noreturn]] void throw_png_error(const PngDecoder& decoder) {
  const bool said = decoder.message[0] != '\0';
  throw ImageError(runner::ErrorCode::kCorruptImage, said ? decoder.message : "libpng cannot be started");
}

/// Owns what libpng allocates while a file is open.
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
  // Signature, length and name of the first chunk, then width and height: read by hand, since libpng's own message
  // would not say the size.
  if (file.size() < 24 || std::memcmp(file.data() + 12, "IHDR", 4) != 0) {
    throw ImageError(runner::ErrorCode::kCorruptImage, "the header is missing");
  }
  const std::int64_t width = png_get_uint_32(file.data() + 16), height = png_get_uint_32(file.data() + 20);
  check_size(width, height);
  return {static_cast<int>(width), static_cast<int>(height), png_orientation(file)};
}

Image decode_png(Bytes file) {
  const ImageHeader header = read_png_header(file);
  OpenPng opened(file);
  PngDecoder& decoder = opened.decoder;
  Image image = Image::unset(header.width, header.height);
  if (png_get_rowbytes(decoder.png, decoder.info) != std::size_t{3} * static_cast<std::size_t>(image.width)) {
    throw ImageError(runner::ErrorCode::kUnsupportedImage, "its pixels cannot be made RGB");
  }
  std::vector<png_bytep> rows(static_cast<std::size_t>(image.height));
  for (int y = 0; y < image.height; ++y) rows[static_cast<std::size_t>(y)] = image.row(y);
  if (!read_rows(decoder, rows.data())) throw_png_error(decoder);
  return image;
}

}  // namespace stages
