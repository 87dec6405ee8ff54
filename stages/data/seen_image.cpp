#include "stages/data/seen_image.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "stages/data/disc_crop.h"
#include "stages/data/transform.h"
#include "stages/data/weighted_sums.h"

namespace stages {
namespace {

/// Returns the length of a side after the longer side of the image is reduced to `longest`.
int reduced_side(int side, int longer, int longest) {
  if (longer <= longest) return side;
  return std::max(1, static_cast<int>(std::lround(static_cast<double>(side) * longest / longer)));
}

}  // namespace

Region region_seen(const Box& used, const ImageDatasetOptions& transform) {
  const Cut cut = evaluation_cut(used.width, used.height, transform.image_size, transform.resize);
  const double across = static_cast<double>(used.width) / static_cast<double>(cut.width),
               down = static_cast<double>(used.height) / static_cast<double>(cut.height);
  return {used.left + cut.window.left * across, used.top + cut.window.top * down,
          cut.window.width * across, cut.window.height * down};
}

SeenImage seen_image(const std::filesystem::path& path, const ImageDatasetOptions& transform,
                     int longest) {
  const std::vector<std::uint8_t> file = read_image_file(path);
  const ImageHeader header = read_image_header(file);
  const int width = header.shown_width(), height = header.shown_height();
  const int longer = std::max(width, height);
  const int drawn_width = reduced_side(width, longer, longest),
            drawn_height = reduced_side(height, longer, longest);
  const auto& crop = transform.preprocessing.crop_to_disc;
  // As when a sample is read, the search for the disc needs the image at full size.
  const int eighths = crop ? 8 : smallest_eighths(file, header, drawn_width, drawn_height);
  SeenImage image{.picture = decode_image(file, eighths), .is_reduced = longer > longest};
  const Box used = crop ? disc_box(image.picture, *crop) : Box{0, 0, width, height};
  if (image.picture.width != drawn_width || image.picture.height != drawn_height)
    image.picture = resize(image.picture, drawn_width, drawn_height, Interpolation::kBilinear);
  const Region seen = region_seen(used, transform);
  const double across = static_cast<double>(drawn_width) / width,
               down = static_cast<double>(drawn_height) / height;
  image.seen = {seen.left * across, seen.top * down, seen.width * across, seen.height * down};
  return image;
}

}  // namespace stages
