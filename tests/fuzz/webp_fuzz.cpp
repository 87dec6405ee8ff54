// WebP files: for any content, the reader throws or returns as many pixels as the header declares.

#include "stages/data/image.h"
#include "tests/fuzz/fuzz.h"

using namespace stages;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const Bytes file(bytes, size);
  constexpr int kMostPixels = 1 << 20;  // more would only take time
  try {
    const ImageHeader header = read_webp_header(file);
    if (header.width > kMostPixels / header.height) return 0;
    const Image image = decode_webp(file);
    require(image.width == header.width && image.height == header.height, "another size",
            text_of(bytes, size));
    require(header.orientation >= 1 && header.orientation <= 8, "no orientation",
            text_of(bytes, size));
  } catch (const ImageError&) {
  }
  return 0;
}
