#include "stages/data/jpeg_reader.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include <jpeglib.h>

#include <jerror.h>  // must follow jpeglib.h, which defines the build options
#include <zlib.h>

namespace stages {
namespace {

/// Reads integers in a given byte order at any offset. Returns 0 if out of bounds.
struct Integers {
  Bytes bytes;
  bool big_endian;

  std::uint32_t read(std::size_t at, std::size_t size) const {
    if (at > bytes.size() || bytes.size() - at < size) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value = value << 8 | bytes[at + (big_endian ? i : size - 1 - i)];
    return value;
  }
};

bool starts_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

/// The orientation stored in a file's EXIF or XMP; nullopt: none. The value may be outside 1 to 8.
using Orientation = std::optional<int>;

int in_range(Orientation orientation) {
  return orientation && *orientation >= 1 && *orientation <= 8 ? *orientation : 1;
}

/// Some programs repeat the header of an EXIF segment; others omit it.
Bytes without_exif_header(Bytes bytes) {
  using namespace std::string_view_literals;
  constexpr std::string_view kHeader = "Exif\0\0"sv;
  for (int i = 0; i < 2 && starts_with(bytes, kHeader); ++i) bytes = bytes.subspan(kHeader.size());
  return bytes;
}

Orientation orientation_of_exif(Bytes block) {
  using namespace std::string_view_literals;
  const Bytes tiff = without_exif_header(block);
  if (!starts_with(tiff, "MM\0\x2a"sv) && !starts_with(tiff, "II\x2a\0"sv)) return std::nullopt;
  const Integers integers{tiff, tiff[0] == 'M'};
  const std::size_t directory = integers.read(4, 4);
  const std::size_t entries = integers.read(directory, 2);
  constexpr std::uint32_t kOrientation = 0x0112;
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;  // tag, type, count, value
    if (entry + 12 > tiff.size()) return std::nullopt;
    if (integers.read(entry, 2) != kOrientation) continue;
    if (integers.read(entry + 4, 4) != 1) return 0;
    switch (integers.read(entry + 2, 2)) {
      case 1:  // an unsigned or signed byte
      case 6:
        return static_cast<int>(integers.read(entry + 8, 1));
      case 3:  // 16 bits
      case 8:
        return static_cast<int>(integers.read(entry + 8, 2));
      case 4:  // 32 bits
      case 9:
        return static_cast<int>(integers.read(entry + 8, 4));
      default:
        return 0;
    }
  }
  return std::nullopt;
}

Orientation orientation_of_xmp(Bytes xml) {
  constexpr std::string_view kTag = "tiff:Orientation";
  const std::string_view text(reinterpret_cast<const char*>(xml.data()), xml.size());
  for (std::size_t at = text.find(kTag); at != text.npos; at = text.find(kTag, at + 1)) {
    std::string_view rest = text.substr(at + kTag.size());
    if (rest.starts_with("=\"")) rest.remove_prefix(2);
    else if (rest.starts_with('>')) rest.remove_prefix(1);
    else continue;
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') return rest[0] - '0';
  }
  return std::nullopt;
}

/// Returns the orientation from EXIF or, if that has none, from XMP.
int orientation_of(Bytes exif, Bytes xmp) {
  const Orientation by_exif = orientation_of_exif(exif);
  return in_range(by_exif ? by_exif : orientation_of_xmp(xmp));
}

/// Decompresses zlib data. Returns an empty string if the data is damaged or too long.
std::string inflated(Bytes bytes) {
  constexpr std::size_t kLongest = std::size_t{1} << 20;
  std::string text(kLongest, '\0');
  uLongf size = kLongest;
  const int result =
      ::uncompress(reinterpret_cast<Bytef*>(text.data()), &size, bytes.data(), bytes.size());
  text.resize(result == Z_OK ? size : 0);
  return text;
}

Bytes bytes_of_text(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// Returns the text of a PNG chunk (tEXt, zTXt or iTXt) if its keyword is `key`; otherwise nullopt.
std::optional<std::string> png_text(std::string_view chunk, Bytes data, std::string_view key) {
  if (data.size() <= key.size() || !starts_with(data, key) || data[key.size()] != 0)
    return std::nullopt;
  Bytes rest = data.subspan(key.size() + 1);
  bool is_compressed = chunk == "zTXt";
  if (is_compressed) {
    if (rest.empty() || rest[0] != 0) return std::nullopt;
    rest = rest.subspan(1);
  } else if (chunk == "iTXt") {
    if (rest.size() < 2) return std::nullopt;
    is_compressed = rest[0] != 0;
    rest = rest.subspan(2);
    for (int skipped = 0; skipped < 2; ++skipped) {  // the language tag and the translated keyword
      const auto* const end = std::find(rest.data(), rest.data() + rest.size(), std::uint8_t{0});
      if (end == rest.data() + rest.size()) return std::nullopt;
      rest = rest.subspan(static_cast<std::size_t>(end - rest.data()) + 1);
    }
  }
  if (is_compressed) return inflated(rest);
  return std::string(reinterpret_cast<const char*>(rest.data()), rest.size());
}

/// Parses a raw profile as ImageMagick writes it: a line break, the name, the size, and lines of
/// hexadecimal bytes.
std::string from_raw_profile(const std::string& text) {
  std::size_t begin = 0;
  for (int line = 0; line < 3; ++line) {
    begin = text.find('\n', begin);
    if (begin == text.npos) return "";
    ++begin;
  }
  std::string bytes;
  int high = -1;
  for (const char c : std::string_view(text).substr(begin)) {
    const int digit = '0' <= c && c <= '9'   ? c - '0'
                      : 'a' <= c && c <= 'f' ? c - 'a' + 10
                      : 'A' <= c && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) {
      if (c == '\n' || c == '\r' || c == ' ') continue;
      return "";
    }
    if (high >= 0) bytes += static_cast<char>(16 * high + digit);
    high = high >= 0 ? -1 : digit;
  }
  return bytes;
}

}  // namespace

int exif_orientation(Bytes tiff) { return in_range(orientation_of_exif(tiff)); }

int xmp_orientation(Bytes xml) { return in_range(orientation_of_xmp(xml)); }

int jpeg_orientation(Bytes file) {
  using namespace std::string_view_literals;
  constexpr std::string_view kExif = "Exif\0\0"sv, kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;
  const Integers integers{file, true};
  constexpr std::uint8_t kStartOfScan = 0xDA, kApp1 = 0xE1;
  Bytes exif, xmp;
  std::size_t at = 2;
  while (at + 4 <= file.size() && file[at] == 0xFF) {
    const std::uint8_t marker = file[at + 1];
    if (marker == 0xFF) {  // padding
      ++at;
      continue;
    }
    if (marker == kStartOfScan) break;
    const std::size_t length = integers.read(at + 2, 2);
    if (length < 2 || length > file.size() - at - 2) break;
    const Bytes segment = file.subspan(at + 4, length - 2);
    if (marker == kApp1 && exif.empty() && starts_with(segment, kExif)) exif = segment;
    if (marker == kApp1 && starts_with(segment, kXmp)) xmp = segment.subspan(kXmp.size());
    at += 2 + length;
  }
  return orientation_of(exif, xmp);
}

int png_orientation(Bytes file) {
  const Integers integers{file, true};
  Bytes exif;
  std::string profile, xmp;
  std::size_t at = 8;
  while (at + 12 <= file.size()) {  // chunks: length, name, data, checksum
    const std::size_t length = integers.read(at, 4);
    if (length > file.size() - at - 12) break;
    const std::string_view name(reinterpret_cast<const char*>(file.data()) + at + 4, 4);
    const Bytes data = file.subspan(at + 8, length);
    if (name == "eXIf") exif = data;
    if (name == "tEXt" || name == "zTXt" || name == "iTXt") {
      if (auto text = png_text(name, data, "Raw profile type exif"))
        profile = from_raw_profile(*text);
      if (auto text = png_text(name, data, "XML:com.adobe.xmp")) xmp = *std::move(text);
    }
    at += 12 + length;
  }
  return orientation_of(exif.empty() ? bytes_of_text(profile) : exif, bytes_of_text(xmp));
}

int webp_orientation(Bytes file) {
  const Integers integers{file, false};
  Bytes exif, xmp;
  std::size_t at = 12;
  // Chunks consist of name, length, data, and a padding byte if the length is odd.
  while (at + 8 <= file.size()) {
    const std::size_t length = integers.read(at + 4, 4);
    if (length > file.size() - at - 8) break;
    const Bytes data = file.subspan(at + 8, length);
    if (exif.empty() && starts_with(file.subspan(at), "EXIF")) exif = data;
    if (xmp.empty() && starts_with(file.subspan(at), "XMP ")) xmp = data;
    at += 8 + length + length % 2;
  }
  return orientation_of(exif, xmp);
}

namespace {

/// A file with thousands of scans could keep the decoder busy for hours.
constexpr int kMaxScans = 500;

/// The libjpeg decoder and its jump target. No exception may pass through libjpeg's C code, so
/// errors use longjmp, which must not skip frames with destructors. Objects with destructors must
/// be in the frames above `run`.
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
  if (level >= 0) return;  // trace messages
  switch (state->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL:
      fail(state);
    default:
      return;  // harmless, such as stray bytes between segments
  }
}

void limit_scans(j_common_ptr state) {
  const auto* decompress = reinterpret_cast<jpeg_decompress_struct*>(state);
  if (decompress->input_scan_number <= kMaxScans) return;
  auto& decoder = *static_cast<Decoder*>(state->client_data);
  std::snprintf(decoder.message, sizeof decoder.message, "it has more than %d scans", kMaxScans);
  std::longjmp(decoder.failed, 1);
}

/// Starts decoding and reads the header. On failure, returns false and sets `message`.
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

/// Sets the size and format of the output and starts decompression. Returns false on failure.
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

/// Multiplies two values in units of 1/255, with rounding.
std::uint8_t product(unsigned a, unsigned b) {
  return static_cast<std::uint8_t>((a * b + 127) / 255);
}

/// Converts one row of inverted CMYK to RGB: each channel is the share of white light that its ink
/// and the black ink let through.
void add_inks(const std::uint8_t* inks, std::uint8_t* rgb, int width) {
  for (int x = 0; x < width; ++x, inks += 4, rgb += 3) {
    for (int channel = 0; channel < 3; ++channel) rgb[channel] = product(inks[channel], inks[3]);
  }
}

/// Reads all rows into `image`; `inks` is a buffer for one CMYK row. Returns false on failure.
bool read_rows(Decoder& decoder, Image& image, std::vector<std::uint8_t>& inks) {
  if (setjmp(decoder.failed)) return false;
  const bool four_inks = decoder.state.out_color_space == JCS_CMYK;
  std::uint8_t* rows[16];  // the height of a row of blocks with half-height chroma
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

/// Owns the memory that libjpeg allocates while a file is open.
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
  return {static_cast<int>(state.image_width), static_cast<int>(state.image_height),
          jpeg_orientation(file)};
}

Image decode_jpeg(Bytes file, int eighths) {
  OpenFile opened(file);
  Decoder& decoder = opened.decoder;
  check_size(decoder.state.image_width, decoder.state.image_height);
  if (!start(decoder, eighths)) throw_error(decoder);
  Image image = Image::unset(static_cast<int>(decoder.state.output_width),
                             static_cast<int>(decoder.state.output_height));
  std::vector<std::uint8_t> inks;
  if (decoder.state.out_color_space == JCS_CMYK)
    inks.resize(4 * static_cast<std::size_t>(image.width));
  if (!read_rows(decoder, image, inks)) throw_error(decoder);
  return image;
}

}  // namespace stages
