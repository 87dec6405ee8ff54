#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <torch/types.h>

#include "stages/artifact/dataset.h"

/// Images of noise in a few classes, the same in every call.
class NoiseImages final : public stages::Dataset {
 public:
  NoiseImages(std::int64_t size, std::int64_t image_size, std::int64_t classes = 3)
      : size_(size), image_size_(image_size), classes_(classes) {}

  stages::DatasetDescription describe() const override {
    stages::DatasetDescription description;
    description.size = size_;
    description.tensors = {{"image", {3, image_size_, image_size_}, torch::kFloat},
                           {"label", {}, torch::kLong}};
    for (std::int64_t i = 0; i < classes_; ++i)
      description.classes.push_back("class" + std::to_string(i));
    return description;
  }
  std::optional<stages::NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    // In place: a plan counts one sample for each thread that reads.
    return stages::NamedTensors{
        {"image", torch::arange(3 * image_size_ * image_size_, torch::kFloat)
                      .add_(index * 31)
                      .sin_()
                      .reshape({3, image_size_, image_size_})},
        {"label", torch::tensor(index % classes_)}};
  }
  std::string sample_name(std::int64_t index) const override {
    return "noise" + std::to_string(index);
  }
  stages::LoaderOptions loader() const override { return options; }

  stages::LoaderOptions options;

 private:
  const std::int64_t size_, image_size_, classes_;
};
