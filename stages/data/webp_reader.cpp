#include "stages/data/webp_reader.h"

#include <webp/decode.h>

#include "stages/data/exif.h"

namespace stages {
namespace {

[[noreturn]] void throw_webp_error(VP8StatusCode status) {
  using runner::ErrorCode;
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      throw ImageError(ErrorCode::kCorruptImage, "the file ends too early");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      throw ImageError(ErrorCode::kUnsupportedImage, "it is an unsupported kind of WebP");
    case VP8_STATUS_OUT_OF_MEMORY:
      throw ImageError(ErrorCode::kImageTooLarge, "there is too little memory to decode it");
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
    throw ImageError(runner::ErrorCode::kUnsupportedImage, "it is an animated WebP, which is not supported");
  return {features.width, features.height, webp_orientation(file)};
}

Image decode_webp(Bytes file) {
  const ImageHeader header = read_webp_header(file);
  Image image = Image::unset(header.width, header.height);
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config))
    throw ImageError(runner::ErrorCode::kUnsupportedImage, "libwebp is of another version than Retort was built with");
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {.rgba = image.pixels.data(), .stride = 3 * image.width, .size = image.pixels.size()};
  const VP8StatusCode status = WebPDecode(file.data(), file.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) throw_webp_error(status);
  return image;
}

}  // namespace stages
