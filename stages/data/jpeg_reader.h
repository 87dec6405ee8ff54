#pragma once

#include "stages/data/image.h"

namespace stages {

/// Size and orientation of a JPEG file. Throws ImageError.
ImageHeader read_jpeg_header(Bytes file);

/// The pixels of a JPEG file, not yet oriented, at `eighths`/8 of its size (1 to 8; sides are rounded up).
///
/// Decoded by libjpeg-turbo's accurate integer DCT with smooth chroma upsampling, as Pillow does. Grey is repeated,
/// CMYK taken as inverted, which is how every known program writes it. Missing or damaged data is an
/// ImageError, although libjpeg would only warn and continue with grey.
Image decode_jpeg(Bytes file, int eighths = 8);

}  // namespace stages
