#include "stages/data/preprocessing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

namespace stages {
namespace {

constexpr double kMiddle = 128;

/// Returns an OpenCV matrix that shares the pixels of `image`.
cv::Mat seen_by_opencv(Image& image) {
  return {image.height, image.width, CV_8UC3, image.pixels.data()};
}

std::uint8_t cut_to_byte(double value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
}

/// Returns the lookup table for brightness and contrast.
cv::Mat stretched(const FlattenSharpen& step) {
  cv::Mat table(1, 256, CV_8UC1);
  for (int value = 0; value < 256; ++value) {
    const double brighter = cut_to_byte(value + step.brightness);
    table.at<std::uint8_t>(value) = cut_to_byte(kMiddle + step.contrast * (brighter - kMiddle));
  }
  return table;
}

Image flattened(Image image, const FlattenSharpen& step) {
  const cv::Mat pixels = seen_by_opencv(image);
  cv::Mat gray;
  cv::cvtColor(pixels, gray, cv::COLOR_RGB2GRAY);
  cv::Mat sums;  // OpenCV rounds means differently for large and small kernels
  cv::boxFilter(gray, sums, CV_32S, {step.kernel_size, step.kernel_size}, {-1, -1},
                /*normalize=*/false);
  const auto area =
      static_cast<unsigned>(step.kernel_size) * static_cast<unsigned>(step.kernel_size);
  for (int y = 0; y < image.height; ++y) {
    std::uint8_t* value = image.row(y);
    const std::int32_t* sum = sums.ptr<std::int32_t>(y);
    for (int x = 0; x < image.width; ++x, ++sum) {
      const auto mean = static_cast<int>((2 * static_cast<unsigned>(*sum) + area) / (2 * area));
      for (int channel = 0; channel < 3; ++channel, ++value)
        *value = static_cast<std::uint8_t>(std::clamp(*value - mean + 128, 0, 255));
    }
  }
  cv::LUT(pixels, stretched(step), pixels);
  Image sharp = Image::unset(image.width, image.height);
  const auto amount = static_cast<float>(step.sharpen);
  const cv::Mat kernel =
      (cv::Mat_<float>(3, 3) << 0, -amount, 0, -amount, 1 + 4 * amount, -amount, 0, -amount, 0);
  cv::filter2D(pixels, seen_by_opencv(sharp), -1, kernel);
  return sharp;
}

Image equalized(Image image, const Clahe& step) {
  const cv::Mat pixels = seen_by_opencv(image);
  cv::Mat lab, lightness;
  cv::cvtColor(pixels, lab, cv::COLOR_RGB2Lab);
  cv::extractChannel(lab, lightness, 0);
  cv::createCLAHE(step.clip_limit, {step.columns, step.rows})->apply(lightness, lightness);
  cv::insertChannel(lightness, lab, 0);
  cv::cvtColor(lab, pixels, cv::COLOR_Lab2RGB);
  return image;
}

}  // namespace

Image preprocessed(Image image, const Preprocessing& steps) {
  // Several threads are already reading images, so OpenCV must not start its own.
  [[maybe_unused]] static const bool has_no_threads = (cv::setNumThreads(0), true);
  if (steps.crop_to_disc) image = cropped_to_disc(std::move(image), *steps.crop_to_disc);
  if (steps.flatten_sharpen) image = flattened(std::move(image), *steps.flatten_sharpen);
  if (steps.clahe) image = equalized(std::move(image), *steps.clahe);
  return image;
}

}  // namespace stages
