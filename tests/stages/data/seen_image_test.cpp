#include "stages/data/seen_image.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/data/images_to_predict.h"
#include "stages/data/preprocessing.h"
#include "tests/support/exif_pictures.h"
#include "tests/support/pictures.h"

namespace stages {
namespace {

constexpr int kInput = 48;                        // the side of the network's input
constexpr std::uint8_t kGray = 100, kSpot = 255;  // 178 is halfway between them
constexpr double kBetween = 178.0 / 255;

/// The box around the brightest pixels; `is_bright(x, y)` says which they are.
template <typename IsBright>
Box bright_box(int width, int height, const IsBright& is_bright) {
  int left = width, top = height, right = 0, bottom = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      if (!is_bright(x, y)) continue;
      left = std::min(left, x), right = std::max(right, x + 1);
      top = std::min(top, y), bottom = std::max(bottom, y + 1);
    }
  }
  return {left, top, right - left, bottom - top};
}

/// A black image with a gray disc, like a retina's, that is off center, and with a hot spot off the
/// center of the disc.
Image disc_with_spot(int width, int height) {
  Image image(width, height);
  const int radius = std::min(width, height) * 2 / 5, middle = width / 2 + 5,
            center = height / 2 - 4;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int across = x - middle, down = y - center;
      if (across * across + down * down > radius * radius) continue;
      const bool is_spot = across >= 10 && across < 22 && down >= -16 && down < -8;
      std::fill_n(image.row(y) + 3 * x, 3, is_spot ? kSpot : kGray);
    }
  }
  return image;
}

ImageDatasetOptions transform_to_input(ResizeOptions resize, bool crops_to_disc) {
  ImageDatasetOptions transform;
  transform.image_size = kInput;
  transform.resize = resize;
  if (crops_to_disc) transform.preprocessing.crop_to_disc = CropToDisc{};
  return transform;
}

/// Checks that the spot in the network's input, mapped to the region, is at the spot in the
/// picture.
void expect_spot_in_its_place(const std::string& file, const ImageDatasetOptions& transform) {
  const ImagesToPredict images({file}, transform, /*skip=*/false);
  const at::Tensor input = images.sample(0, 0)->at("image").contiguous();
  const auto* const values = input.const_data_ptr<float>();
  const Box in_input = bright_box(kInput, kInput, [&](int x, int y) {
    return static_cast<double>(values[y * kInput + x]) > kBetween;
  });
  const SeenImage image = seen_image(file, transform);
  const Image& picture = image.picture;
  const Box in_picture = bright_box(picture.width, picture.height, [&](int x, int y) {
    return picture.row(y)[3 * x] > 255 * kBetween;
  });
  ASSERT_GT(in_input.width, 0);
  ASSERT_GT(in_picture.width, 0);
  // Resampling moves an edge by less than a pixel of the input, and so also the midpoint between
  // two edges.
  const double across = image.seen.width / kInput, down = image.seen.height / kInput;
  EXPECT_NEAR(image.seen.left + (in_input.left + in_input.width / 2.0) * across,
              in_picture.left + in_picture.width / 2.0, across);
  EXPECT_NEAR(image.seen.top + (in_input.top + in_input.height / 2.0) * down,
              in_picture.top + in_picture.height / 2.0, down);
}

class SeenImageTest : public testing::Test {
 protected:
  std::string png(const Image& image) const {
    write_bytes(folder_ / "photo.png", png_file(image));
    return folder_ / "photo.png";
  }

  DrawingFolder folder_;
};

TEST_F(SeenImageTest, EveryTransformKeepsTheSpotInPlace) {
  const std::array<ResizeOptions, 5> kinds = {{
      {},
      {.crop_fraction = 0.875},
      {.interpolation = Interpolation::kBilinear, .crop_fraction = 0.7},
      {.crop_fraction = 0.9, .crop_offset = CropOffset::kRound},
      {.shape = ResizeShape::kSquare},
  }};
  for (const bool is_portrait : {false, true}) {
    const std::string file = png(is_portrait ? disc_with_spot(121, 182) : disc_with_spot(182, 121));
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      for (const bool crops_to_disc : {false, true}) {
        SCOPED_TRACE("kind " + std::to_string(kind) + (is_portrait ? ", portrait" : "") +
                     (crops_to_disc ? ", disc" : ""));
        expect_spot_in_its_place(file, transform_to_input(kinds[kind], crops_to_disc));
      }
    }
  }
}

TEST_F(SeenImageTest, ExifOrientationIsApplied) {
  for (std::uint8_t orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(int{orientation});
    write_bytes(folder_ / "turned.jpg", with_exif(disc_with_spot(182, 121), orientation));
    const SeenImage image = seen_image(folder_ / "turned.jpg", transform_to_input({}, false));
    EXPECT_EQ(image.picture.width, orientation >= 5 ? 121 : 182);
    for (const bool crops_to_disc : {false, true})
      expect_spot_in_its_place(folder_ / "turned.jpg",
                               transform_to_input({.crop_fraction = 0.875}, crops_to_disc));
  }
}

TEST_F(SeenImageTest, CenterCropOfALandscapeIsItsMiddleSquare) {
  const SeenImage image = seen_image(png(Image(192, 96)), transform_to_input({}, false));
  EXPECT_FALSE(image.is_reduced);
  EXPECT_EQ(image.picture.width, 192);
  EXPECT_EQ(image.seen.left, 48);
  EXPECT_EQ(image.seen.top, 0);
  EXPECT_EQ(image.seen.width, 96);
  EXPECT_EQ(image.seen.height, 96);
}

TEST_F(SeenImageTest, LargeImageIsReducedWithItsRegion) {
  for (const char* name : {"large.png", "large.jpg"}) {
    const Image image = disc_with_spot(400, 300);
    write_bytes(folder_ / name,
                std::string_view(name).ends_with("png") ? png_file(image) : encode_jpeg(image, 95));
    const ImageDatasetOptions transform = transform_to_input({}, false);
    const SeenImage whole = seen_image(folder_ / name, transform),
                    reduced = seen_image(folder_ / name, transform, 100);
    EXPECT_TRUE(reduced.is_reduced);
    EXPECT_EQ(reduced.picture.width, 100);
    EXPECT_EQ(reduced.picture.height, 75);
    EXPECT_EQ(whole.seen.left, 4 * reduced.seen.left);
    EXPECT_EQ(whole.seen.width, 4 * reduced.seen.width);
    EXPECT_EQ(reduced.seen.height, 75);
  }
}

TEST_F(SeenImageTest, ShowsTheImageBeforePreprocessing) {
  ImageDatasetOptions transform = transform_to_input({}, true);
  transform.preprocessing.flatten_sharpen = FlattenSharpen{};
  transform.preprocessing.clahe = Clahe{};
  const Image image = disc_with_spot(182, 121);
  EXPECT_EQ(seen_image(png(image), transform).picture.pixels, image.pixels);
}

}  // namespace
}  // namespace stages
