#include "stages/data/jpeg_reader.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <iterator>

#include <jpeglib.h>
#include <jerror.h>

#include "stages/data/exif.h"

namespace stages {
namespace {

/// A file with thousands of scans would keep the decoder busy for hours.
constexpr int kMaxScans = 500;

/// The decoder and where it jumps to. libjpeg is C: an exception must not cross it, so it leaves by longjmp, over
/// frames without destructors only. Everything with a destructor lives above `run`.
struct Decoder {
  jpeg_decompress_struct state{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf failed;
  int code = 0;
  char message[JMSG_LENGTH_MAX] = {};
};

[[noreturn]] void fail(j_common_ptr state) {
  auto& decoder = *static_cast<Decoder*>(state->client_data);
  decoder.code = state->err->msg_code;
  state->err->format_message(state, decoder.message);
  std::longjmp(decoder.failed, 1);
}

void on_message(j_common_ptr state, int level) {
  if (level >= 0) return;  // a trace
  switch (state->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL:
      fail(state);
    default:
      return;  // stray bytes between segments and the like: the pixels are whole
  }
}

void limit_scans(j_common_ptr state) {
  const auto* decompress = reinterpret_cast<jpeg_decompress_struct*>(state);
  if (decompress->input_scan_number <= kMaxScans) return;
  auto& decoder = *static_cast<Decoder*>(state->client_data);
  std::snprintf(decoder.message, sizeof decoder.message, "it has more than %d scans", kMaxScans);
  std::longjmp(decoder.failed, 1);
}

/// Begins decoding and reads the header. False, and `message` set, on failure.
bool open(Decoder& decoder, Bytes file) {
  decoder.state.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = fail;
  decoder.errors.emit_message = on_message;
  decoder.state.client_data = &decoder;
  if (setjmp(decoder.failed)) return false;
  jpeg_create_decompress(&decoder.state);
  decoder.progress.progress_monitor = limit_scans;
  decoder.state.progress = &decoder.progress;
  jpeg_mem_src(&decoder.state, file.data(), file.size());
  jpeg_read_header(&decoder.state, TRUE);
  return true;
}

/// Sets the output's size and format. False on failure.
bool start(Decoder& decoder, int eighths) {
  if (setjmp(decoder.failed)) return false;
  jpeg_decompress_struct& state = decoder.state;
  const bool four_inks = state.jpeg_color_space == JCS_CMYK || state.jpeg_color_space == JCS_YCCK;
  state.out_color_space = four_inks ? JCS_CMYK : JCS_RGB;
  state.dct_method = JDCT_ISLOW;
  state.do_fancy_upsampling = TRUE;
  state.scale_num = static_cast<unsigned>(eighths);
  state.scale_denom = 8;
  jpeg_start_decompress(&state);
  return true;
}

/// Multiplies two fractions of 255, rounded.
std::uint8_t product(unsigned a, unsigned b) { return static_cast<std::uint8_t>((a * b + 127) / 255); }

/// One row of inverted CMYK, K last: what remains of white after ink and black.
void add_inks(const std::uint8_t* inks, std::uint8_t* rgb, int width) {
  for (int x = 0; x < width; ++x, inks += 4, rgb += 3) {
    for (int channel = 0; channel < 3; ++channel) rgb[channel] = product(inks[channel], inks[3]);
  }
}

/// Reads every row into `image`; `inks` is room for one row of four inks. False on failure.
bool read_rows(Decoder& decoder, Image& image, std::vector<std::uint8_t>& inks) {
  if (setjmp(decoder.failed)) return false;
  const bool four_inks = decoder.state.out_color_space == JCS_CMYK;
  std::uint8_t* rows[16];  // as many as a row of blocks has, where colours have half the height
  while (decoder.state.output_scanline < decoder.state.output_height) {
    const auto y = static_cast<int>(decoder.state.output_scanline);
    const int most = four_inks ? 1 : std::min(static_cast<int>(std::size(rows)), image.height - y);
    for (int i = 0; i < most; ++i) rows[i] = four_inks ? inks.data() : image.row(y + i);
    jpeg_read_scanlines(&decoder.state, rows, static_cast<JDIMENSION>(most));
    if (four_inks) add_inks(inks.data(), image.row(y), image.width);
  }
  return true;
}

[[noreturn]] void throw_error(const Decoder& decoder) {
  switch (decoder.code) {
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_ARITH_NOTIMPL:
    case JERR_SOF_UNSUPPORTED:
      throw ImageError(runner::ErrorCode::kUnsupportedImage, decoder.message);
    case JERR_EMPTY_IMAGE:
      throw ImageError(runner::ErrorCode::kCorruptImage, "it has no pixels");
    case JERR_IMAGE_TOO_BIG:
      throw ImageError(runner::ErrorCode::kImageTooLarge, "a side is longer than 65500 pixels");
    default:
      throw ImageError(runner::ErrorCode::kCorruptImage, decoder.message);
  }
}

/// Owns what libjpeg allocates while a file is open.
class OpenFile {
 public:
  explicit OpenFile(Bytes file) {
    if (open(decoder, file)) return;
    jpeg_destroy_decompress(&decoder.state);
    throw_error(decoder);
  }
  ~OpenFile() { jpeg_destroy_decompress(&decoder.state); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  Decoder decoder;
};

}  // namespace

ImageHeader read_jpeg_header(Bytes file) {
  const OpenFile opened(file);
  const jpeg_decompress_struct& state = opened.decoder.state;
  check_size(state.image_width, state.image_height);
  return {static_cast<int>(state.image_width), static_cast<int>(state.image_height), jpeg_orientation(file)};
}

Image decode_jpeg(Bytes file, int eighths) {
  OpenFile opened(file);
  Decoder& decoder = opened.decoder;
  check_size(decoder.state.image_width, decoder.state.image_height);
  if (!start(decoder, eighths)) throw_error(decoder);
  Image image =
      Image::unset(static_cast<int>(decoder.state.output_width), static_cast<int>(decoder.state.output_height));
  std::vector<std::uint8_t> inks;
  if (decoder.state.out_color_space == JCS_CMYK) inks.resize(4 * static_cast<std::size_t>(image.width));
  if (!read_rows(decoder, image, inks)) throw_error(decoder);
  return image;
}

}  // namespace stages
