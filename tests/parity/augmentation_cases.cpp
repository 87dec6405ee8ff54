// Operations of augmentation policies, mixtures of them, and erased rectangles, as torchvision
// computes them. tests/golden/augmentations.py recorded them.

#include <cstdlib>
#include <map>

#include <torch/types.h>

#include "runner/shared/disk/digest.h"
#include "stages/data/augment_policy.h"
#include "stages/data/erasing.h"
#include "stages/data/image_operation.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;

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
                                                      {"Greyscale", Operation::kGrayscale},
                                                      {"GaussianBlur", Operation::kGaussianBlur}};

/// Returns the image of a size such as "23x17": gradients with a dark rectangle.
Image image_of_size(const std::string& size) {
  const std::size_t x = size.find('x');
  const int width = std::stoi(size), height = std::stoi(size.substr(x + 1));
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

void compare_operations(const RecordedCase& recorded) {
  for (const auto& [size, operations] : recorded.json.at("sizes").items()) {
    const Image image = image_of_size(size);
    ASSERT_EQ(digest_of(image), operations.at("Identity")[0][2]) << "the image differs";
    for (const auto& [name, cases] : operations.items()) {
      for (const auto& one : cases) {
        const auto neighbors = one[1] == "b" ? Neighbors::kBilinear : Neighbors::kNearest;
        EXPECT_EQ(digest_of(applied(image, {kOperations.at(name), one[0]}, neighbors)), one[2])
            << size << ' ' << name << ' ' << one;
      }
    }
  }
}

DrawnPolicy mixture_of(const nlohmann::json& json) {
  DrawnPolicy drawn{.share_of_image = json.at("share_of_image")};
  const nlohmann::json &chains = json.at("chains"), &shares = json.at("shares");
  for (std::size_t i = 0; i < chains.size(); ++i) {
    OperationChain& chain = drawn.chains.emplace_back();
    chain.share = shares.at(i);
    for (const nlohmann::json& step : chains[i])
      chain.steps.push_back({kOperations.at(step[0]), step[1]});
  }
  return drawn;
}

/// Returns the largest difference between our mixture's pixels and torchvision's.
int largest_augmentation_difference(const nlohmann::json& json) {
  const Image made =
      with_policy(image_of_size(json.at("size")), mixture_of(json), Neighbors::kNearest);
  const std::string pixels = json.at("pixels");
  EXPECT_EQ(pixels.size(), 2 * made.pixels.size());
  int largest = 0;
  for (std::size_t i = 0; i < made.pixels.size(); ++i)
    largest = std::max(largest,
                       std::abs(made.pixels[i] - std::stoi(pixels.substr(2 * i, 2), nullptr, 16)));
  return largest;
}

/// Returns the largest difference that rounding can cause. torchvision's AugMix computes on
/// tensors, even for Pillow's images; ours uses Pillow's operations. With magnitude m, both blend
/// the image with m times a second image. The gray values of these second images differ by at most
/// 1; for contrast, their means differ by at most 1.5, since Pillow rounds the gray values and then
/// the mean. Both results are then rounded down, so the results of an operation differ by at most
/// 1.5 |m| + 1. Rounding down the sum of the chains adds less than 1.
double tolerance_of_augmentation(const DrawnPolicy& drawn) {
  double differs = 0;
  for (const OperationChain& chain : drawn.chains) {
    EXPECT_EQ(chain.steps.size(), 1U) << "the bound is for one operation";
    differs += chain.share * (1.5 * std::abs(chain.steps.at(0).magnitude) + 1);
  }
  return differs + 1;
}

void compare_mixtures(const RecordedCase& recorded) {
  for (const nlohmann::json& json : recorded.json.at("exact"))
    EXPECT_EQ(largest_augmentation_difference(json), 0) << json.at("chains");
  for (const nlohmann::json& json : recorded.json.at("near"))
    EXPECT_LT(largest_augmentation_difference(json), tolerance_of_augmentation(mixture_of(json)))
        << json.at("chains");
}

void compare_erasings(const RecordedCase& recorded) {
  const at::Tensor whole = torch::linspace(-2, 2, 3 * 5 * 6).reshape({3, 5, 6});
  for (const nlohmann::json& json : recorded.json.at("erasings")) {
    const nlohmann::json& box = json.at("box");
    const Box erased{box[0], box[1], box[2], box[3]};
    Random random({1});
    const at::Tensor values = json.at("fill").is_null()
                                  ? erasing_values(RandomErasing::Fill::kMean, erased, random)
                                  : tensor_of(json.at("fill"));
    const at::Tensor pixels = whole.clone();
    erase(pixels, erased, values);
    expect_close(pixels.to(at::kDouble), tensor_of(json.at("image")), box.dump(), 1e-6);
    const at::Tensor noise = erasing_values(RandomErasing::Fill::kNoise, erased, random);
    EXPECT_EQ(noise.sizes(), at::IntArrayRef({3, erased.height, erased.width}));
  }
}

}  // namespace

std::vector<CaseKind> augmentation_cases() {
  return {number_kind("ImageOperations", "image_operations", compare_operations),
          number_kind("AugMixes", "augmix", compare_mixtures),
          number_kind("Erasings", "erasing", compare_erasings)};
}
