#include "stages/data/image_writer.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <jpeglib.h>
#include <png.h>

namespace stages {
namespace {

/// The libjpeg encoder. libjpeg reports errors with longjmp, which must not skip frames with
/// destructors.
struct Encoder {
  jpeg_compress_struct state{};
  jpeg_error_mgr errors{};
  std::jmp_buf failed;
  char message[JMSG_LENGTH_MAX] = {};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
};

[[noreturn]] void cannot_encode(j_common_ptr state) {
  auto& encoder = *static_cast<Encoder*>(state->client_data);
  state->err->format_message(state, encoder.message);
  std::longjmp(encoder.failed, 1);
}

bool encode(Encoder& encoder, const Image& image, int quality, J_COLOR_SPACE colors) {
  jpeg_compress_struct& state = encoder.state;
  state.err = jpeg_std_error(&encoder.errors);
  encoder.errors.error_exit = cannot_encode;
  state.client_data = &encoder;
  if (setjmp(encoder.failed)) return false;
  jpeg_create_compress(&state);
  jpeg_mem_dest(&state, &encoder.bytes, &encoder.size);
  state.image_width = static_cast<JDIMENSION>(image.width);
  state.image_height = static_cast<JDIMENSION>(image.height);
  state.input_components = 3;
  state.in_color_space = JCS_RGB;
  jpeg_set_defaults(&state);
  jpeg_set_colorspace(&state, colors);
  jpeg_set_quality(&state, quality, TRUE);
  state.dct_method = JDCT_ISLOW;
  state.comp_info[0].h_samp_factor = 1;
  state.comp_info[0].v_samp_factor = 1;
  jpeg_start_compress(&state, TRUE);
  while (state.next_scanline < state.image_height) {
    JSAMPROW row = const_cast<std::uint8_t*>(image.row(static_cast<int>(state.next_scanline)));
    jpeg_write_scanlines(&state, &row, 1);
  }
  jpeg_finish_compress(&state);
  return true;
}

std::vector<std::uint8_t> encoded(const Image& image, int quality, J_COLOR_SPACE colors) {
  Encoder encoder;
  const bool done = encode(encoder, image, quality, colors);
  jpeg_destroy_compress(&encoder.state);
  std::vector<std::uint8_t> result;
  if (done) result.assign(encoder.bytes, encoder.bytes + encoder.size);
  std::free(encoder.bytes);
  if (!done) throw std::runtime_error(encoder.message);
  return result;
}

}  // namespace

std::vector<std::uint8_t> encode_jpeg(const Image& image, int quality) {
  return encoded(image, quality, JCS_YCbCr);
}

std::vector<std::uint8_t> encode_gray_jpeg(const Image& image, int quality) {
  return encoded(image, quality, JCS_GRAYSCALE);
}

std::vector<std::uint8_t> png_file(const Image& image) {
  png_image described{};
  described.version = PNG_IMAGE_VERSION;
  described.width = static_cast<png_uint_32>(image.width);
  described.height = static_cast<png_uint_32>(image.height);
  described.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(described);
  std::vector<std::uint8_t> bytes(size);
  if (!png_image_write_to_memory(&described, bytes.data(), &size, 0, image.pixels.data(), 0,
                                 nullptr))
    throw std::runtime_error(described.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace stages
