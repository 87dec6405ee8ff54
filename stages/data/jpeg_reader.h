#pragma once

#include "stages/data/image.h"

namespace stages {

// The orientation of an image, 1 to 8, as Pillow's ImageOps.exif_transpose() finds it: from its
// EXIF block or, if that has none, from its XMP.

/// The orientation in an EXIF block (a TIFF header, as it follows "Exif\0\0"), a number of 16 or 32
/// bits. Only the first directory is read; 1 if it has none, or if the block is malformed.
int exif_orientation(Bytes tiff);

/// The orientation in XMP: tiff:Orientation, as an attribute or an element; 1 if there is none.
int xmp_orientation(Bytes xml);

/// Of a JPEG file: from its first EXIF and XMP segments before the image data.
int jpeg_orientation(Bytes file);

/// Of a PNG file: from its chunk eXIf, the profile that ImageMagick writes instead, and the text
/// XML:com.adobe.xmp.
int png_orientation(Bytes file);

/// Of a WebP file: from its chunks EXIF and XMP.
int webp_orientation(Bytes file);

/// Size and orientation of a JPEG file. Throws ImageError.
ImageHeader read_jpeg_header(Bytes file);

/// The pixels of a JPEG file, not yet oriented, at `eighths`/8 of its size (1 to 8; sides are
/// rounded up).
///
/// Decoded with libjpeg-turbo's accurate integer DCT and smooth chroma upsampling, as Pillow does.
/// Grey is repeated; CMYK is taken as inverted, which is how every known program writes it. Missing
/// or damaged data is an ImageError, although libjpeg would only warn and continue with grey.
Image decode_jpeg(Bytes file, int eighths = 8);

}  // namespace stages
