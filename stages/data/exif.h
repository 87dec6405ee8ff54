#pragma once

#include "stages/data/image.h"

namespace stages {

/// The orientation in an EXIF block (a TIFF header, as it follows "Exif\0\0"), 1 to 8.
/// Only the first directory is looked at; 1 where there is none, or where the block cannot be understood.
int exif_orientation(Bytes tiff);

/// The orientation of a JPEG file: that of its first EXIF segment before the picture.
int jpeg_orientation(Bytes file);

/// The orientation of a PNG file: that of its eXIf chunk.
int png_orientation(Bytes file);

/// The orientation of a WebP file: that of its EXIF chunk.
int webp_orientation(Bytes file);

}  // namespace stages
