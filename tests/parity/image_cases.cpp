// Decoding, resizing and preprocessing of images, compared with Pillow, transformers, timm and
// torchvision. Resizing starts from the recorded pixels, so that differences between decoders are
// not counted twice.

#include <cstdlib>

#include <torch/types.h>

#include "stages/data/image.h"
#include "stages/data/jpeg_reader.h"
#include "stages/data/normalization.h"
#include "stages/data/transform.h"
#include "stages/data/weighted_sums.h"
#include "tests/parity/recorded_case.h"
#include "tests/support/pictures.h"

namespace {

using namespace stages;
namespace fs = std::filesystem;

constexpr std::array kClipMean = {0.48145466, 0.4578275, 0.40821073};
constexpr std::array kClipDeviation = {0.26862954, 0.26130258, 0.27577711};
constexpr std::array kImageNetMean = {0.485, 0.456, 0.406};
constexpr std::array kImageNetDeviation = {0.229, 0.224, 0.225};
constexpr int kJpegLevels = 2;  // by how much decoders of the same file may differ

at::Tensor bytes_of(const Image& image) {
  return torch::tensor(at::ArrayRef<std::uint8_t>(image.pixels), torch::kUInt8)
      .reshape({image.height, image.width, 3});
}

at::Tensor normalized(const Image& image, const std::array<double, 3>& mean,
                      const std::array<double, 3>& deviation) {
  const at::Tensor result = torch::empty({3, image.height, image.width});
  Normalization(mean, deviation).write(image, /*mirrored=*/false, result.data_ptr<float>());
  return result;
}

Image cut_out(const Image& image, std::int64_t size, const ResizeOptions& options) {
  return apply(evaluation_cut(image.width, image.height, static_cast<int>(size), options), image,
               options.interpolation);
}

/// The result of processing `image` as a record's name says; undefined for unknown names.
at::Tensor made(const std::string& name, const Image& image, const at::Tensor& expected) {
  const std::int64_t size = expected.size(1);
  if (name.starts_with("resize.")) {
    const auto mode =
        name.find("bicubic") != name.npos ? Interpolation::kBicubic : Interpolation::kBilinear;
    return bytes_of(resize(image, static_cast<int>(expected.size(1)),
                           static_cast<int>(expected.size(0)), mode));
  }
  if (name.starts_with("clip."))
    return normalized(cut_out(image, size, {}), kClipMean, kClipDeviation);
  if (name.starts_with("timm.")) {
    const double fraction = std::stod(name.substr(name.find('.', 5) + 1));
    const ResizeOptions options{.crop_fraction = fraction, .crop_offset = CropOffset::kRound};
    return normalized(cut_out(image, size, options), kImageNetMean, kImageNetDeviation);
  }
  if (name.starts_with("torchvision.bilinear.")) {
    return bytes_of(
        cut_out(image, size,
                {.interpolation = Interpolation::kBilinear, .crop_offset = CropOffset::kRound}));
  }
  if (name.starts_with("square.bilinear.")) {
    return bytes_of(cut_out(
        image, size, {.interpolation = Interpolation::kBilinear, .shape = ResizeShape::kSquare}));
  }
  return {};
}

double largest_image_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(torch::kDouble) - b.to(torch::kDouble)).abs().max().item<double>();
}

void expect_pixels(const Image& found, const at::Tensor& expected, double tolerance,
                   const std::string& what) {
  const at::Tensor bytes = bytes_of(found);
  ASSERT_EQ(bytes.sizes(), expected.sizes()) << what;
  EXPECT_LE(largest_image_difference(bytes, expected), tolerance) << what;
}

void compare_image(const RecordedCase& recorded) {
  const fs::path jpeg = recorded.path / "input.jpg", png = recorded.path / "input.png";
  const fs::path numbers = recorded.path / "outputs.safetensors";
  const RecordedTensors outputs =
      fs::exists(numbers) ? safetensors_fixture(numbers) : RecordedTensors();
  const Image decoded = decode_png(file_bytes(recorded.path / "decoded.png"));
  if (fs::exists(jpeg)) {
    expect_pixels(decode_jpeg(file_bytes(jpeg)), bytes_of(decoded), kJpegLevels, "decoded");
  } else if (outputs.contains("high_byte")) {  // a 16-bit PNG, which Pillow turns white
    expect_pixels(decode_png(file_bytes(png)), outputs.at("high_byte"), 0, "decoded");
  } else {
    expect_pixels(decode_png(file_bytes(png)), bytes_of(decoded), 0, "decoded");
  }
  for (const auto& [name, expected] : outputs) {
    if (name == "high_byte" || name == "rounded")
      continue;  // "rounded" is another conversion from 16 bits
    if (name == "decoded_exif_applied") {
      expect_pixels(decode_image(file_bytes(jpeg)), expected, kJpegLevels, name);
      continue;
    }
    const at::Tensor actual = made(name, decoded, expected);
    if (!actual.defined()) {
      ADD_FAILURE() << "nothing was compared with " << name;
      continue;
    }
    ASSERT_EQ(actual.sizes(), expected.sizes()) << name;
    EXPECT_LE(largest_image_difference(actual, expected),
              expected.scalar_type() == torch::kUInt8 ? 0 : 1e-5)
        << name;
  }
}

}  // namespace

std::vector<CaseKind> image_cases() {
  return {{"Images",
           [](const RecordedCase& recorded) { return fs::exists(recorded.path / "decoded.png"); },
           compare_image}};
}
