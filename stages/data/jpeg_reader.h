#pragma once

#include "stages/data/image.h"

namespace stages {

// The functions below return the orientation of an image, 1 to 8, as Pillow's
// ImageOps.exif_transpose() determines it: from the EXIF block or, if that has none, from XMP
// metadata.

/// Returns the orientation in an EXIF block (the TIFF header after "Exif\0\0"), an integer of 8, 16
/// or 32 bits. Only the first directory is read. Returns 1 if it has no orientation or the block is
/// malformed.
int exif_orientation(Bytes tiff);

/// Returns the orientation in XMP metadata, from a tiff:Orientation attribute or element; 1 if
/// there is none.
int xmp_orientation(Bytes xml);

/// Reads the first EXIF and XMP segments that precede the image data in a JPEG file.
int jpeg_orientation(Bytes file);

/// Reads a PNG file's eXIf chunk, the raw profile that ImageMagick writes instead, and the
/// XML:com.adobe.xmp text.
int png_orientation(Bytes file);

/// Reads a WebP file's EXIF and XMP chunks.
int webp_orientation(Bytes file);

/// Returns the size and orientation of a JPEG file. Throws ImageError.
ImageHeader read_jpeg_header(Bytes file);

/// Decodes a JPEG file at `eighths`/8 of its size (1 to 8; sides are rounded up), without applying
/// its orientation.
///
/// Uses libjpeg-turbo's accurate integer DCT and smooth chroma upsampling, as Pillow does. Gray is
/// copied to all channels. CMYK is assumed to be inverted, since every known program writes it that
/// way. Throws ImageError for missing or damaged data, for which libjpeg would only warn and fill
/// in gray.
Image decode_jpeg(Bytes file, int eighths = 8);

}  // namespace stages
