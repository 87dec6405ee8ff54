#pragma once

#include "stages/data/image.h"

namespace stages {

// How a picture is to be turned, 1 to 8, as Pillow's ImageOps.exif_transpose() finds it: by its
// EXIF block, and where that says nothing, by its XMP.

/// What an EXIF block says (a TIFF header, as it follows "Exif\0\0"), a number of 16 or 32 bits.
/// Only the first directory is looked at; 1 where it says nothing, or where the block cannot be
/// understood.
int exif_orientation(Bytes tiff);

/// What XMP says: tiff:Orientation, as an attribute or an element; 1 where it says nothing.
int xmp_orientation(Bytes xml);

/// Of a JPEG file: by its first segment of EXIF and of XMP before the picture.
int jpeg_orientation(Bytes file);

/// Of a PNG file: by its chunk eXIf, the profile that ImageMagick writes in its place, and the text
/// XML:com.adobe.xmp.
int png_orientation(Bytes file);

/// Of a WebP file: by its chunks EXIF and XMP.
int webp_orientation(Bytes file);

/// Size and orientation of a JPEG file. Throws ImageError.
ImageHeader read_jpeg_header(Bytes file);

/// The pixels of a JPEG file, not yet oriented, at `eighths`/8 of its size (1 to 8; sides are
/// rounded up).
///
/// Decoded by libjpeg-turbo's accurate integer DCT with smooth chroma upsampling, as Pillow does.
/// Grey is repeated, CMYK taken as inverted, which is how every known program writes it. Missing or
/// damaged data is an ImageError, although libjpeg would only warn and continue with grey.
Image decode_jpeg(Bytes file, int eighths = 8);

}  // namespace stages
