#pragma once

#include "stages/data/image.h"

namespace stages {

/// Size and orientation of a PNG file. Throws ImageError.
ImageHeader read_png_header(Bytes file);

/// The pixels of a PNG file, not yet oriented. Palettes are looked up, grey is repeated, transparency is dropped (not
/// composited), of 16-bit samples the high byte is taken. No gamma or colour profile is applied. Throws ImageError.
Image decode_png(Bytes file);

}  // namespace stages
