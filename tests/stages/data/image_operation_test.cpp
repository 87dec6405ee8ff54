#include "stages/data/image_operation.h"

#include <fstream>
#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/digest.h"
#include "tests/support/pictures.h"

namespace stages {
namespace {

const std::map<std::string, Operation> kOperations = {{"Identity", Operation::kIdentity},
                                                      {"ShearX", Operation::kShearX},
                                                      {"ShearY", Operation::kShearY},
                                                      {"TranslateX", Operation::kTranslateX},
                                                      {"TranslateY", Operation::kTranslateY},
                                                      {"Rotate", Operation::kRotate},
                                                      {"Brightness", Operation::kBrightness},
                                                      {"Color", Operation::kColor},
                                                      {"Contrast", Operation::kContrast},
                                                      {"Sharpness", Operation::kSharpness},
                                                      {"Posterize", Operation::kPosterize},
                                                      {"Solarize", Operation::kSolarize},
                                                      {"AutoContrast", Operation::kAutoContrast},
                                                      {"Equalize", Operation::kEqualize},
                                                      {"Invert", Operation::kInvert},
                                                      {"Greyscale", Operation::kGreyscale},
                                                      {"GaussianBlur", Operation::kGaussianBlur}};

/// The image for the recorded digests: gradients with a dark rectangle.
Image recorded_image(int width, int height) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      std::uint8_t* const pixel = image.row(y) + 3 * x;
      pixel[0] = static_cast<std::uint8_t>(x * 7 + y * 13);
      pixel[1] = static_cast<std::uint8_t>(x * x + 3 * y);
      pixel[2] = static_cast<std::uint8_t>((255 - (x * 5) % 199 + y * y * 2) % 251);
      const bool is_dark = y >= height / 3 && y < height / 2 && x >= width / 4 && x < width / 2;
      for (int channel = 0; is_dark && channel < 3; ++channel) pixel[channel] /= 3;
    }
  }
  return image;
}

std::string digest_of(const Image& image) {
  runner::Digest digest;
  digest.update({reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size()});
  return digest.finish().substr(0, 16);
}

/// The digests of the pixels that torchvision 0.26 with Pillow 12.0 computes from the same image.
TEST(ImageOperation, MatchesTorchvisionBitForBit) {
  std::ifstream file(RETORT_SOURCE_DIR "/tests/recorded/image_operations.json");
  const auto recorded = nlohmann::json::parse(file);
  for (const auto& [size, operations] : recorded.items()) {
    const std::size_t x = size.find('x');
    const Image image = recorded_image(std::stoi(size), std::stoi(size.substr(x + 1)));
    ASSERT_EQ(digest_of(image), operations.at("Identity")[0][2]) << "another image";
    for (const auto& [name, cases] : operations.items()) {
      for (const auto& one : cases) {
        const auto neighbours = one[1] == "b" ? Neighbours::kBilinear : Neighbours::kNearest;
        EXPECT_EQ(digest_of(applied(image, {kOperations.at(name), one[0]}, neighbours)), one[2])
            << size << ' ' << name << ' ' << one;
      }
    }
  }
}

TEST(ImageOperation, TranslatesByWholePixelsTowardZero) {
  const Image image = picture(9, 5);
  for (const double magnitude : {2.0, 2.9}) {
    const Image right = applied(image, {Operation::kTranslateX, magnitude});
    EXPECT_EQ(right.row(3)[3 * 8], image.row(3)[3 * 6]);
    EXPECT_EQ(right.row(3)[3], 0) << "from outside";
    EXPECT_EQ(applied(image, {Operation::kTranslateX, -magnitude}).row(3)[0], image.row(3)[3 * 2]);
  }
}

TEST(ImageOperation, BlurKeepsAUniformColor) {
  Image image(12, 7);
  std::fill(image.pixels.begin(), image.pixels.end(), std::uint8_t{77});
  for (const double radius : {0.0, 0.3, 4.0, 60.0})
    EXPECT_EQ(applied(image, {Operation::kGaussianBlur, radius}).pixels, image.pixels) << radius;
}

}  // namespace
}  // namespace stages
