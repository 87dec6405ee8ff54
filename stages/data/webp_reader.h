#pragma once

#include "stages/data/image.h"

namespace stages {

/// Size and orientation of a WebP file. Throws ImageError: kUnsupportedImage for an animation.
ImageHeader read_webp_header(Bytes file);

/// The pixels of a WebP file, not yet oriented. Transparency is dropped (not composited), no colour profile is applied.
/// Throws ImageError.
Image decode_webp(Bytes file);

}  // namespace stages
