#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/types.h>

#include "stages/artifact/dataset.h"

namespace stages {

/// Small images of a few classes, each with its own pattern and noise, and their captions, such as
/// "a photo of a red.".
class CaptionedImages final : public Dataset {
 public:
  explicit CaptionedImages(std::int64_t size,
                           std::vector<std::string> classes = {"red", "green", "blue"})
      : size_(size), classes_(std::move(classes)) {}

  DatasetDescription describe() const override {
    DatasetDescription data;
    data.size = size_;
    data.tensors = {{"image", {3, kSide, kSide}, at::kFloat},
                    {"label", {}, at::kLong},
                    {"caption", {}, at::kLong}};
    data.classes = classes_;
    for (const std::string& name : classes_) data.captions.push_back(caption + name + ".");
    data.class_words = words;
    return data;
  }
  std::optional<NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    const std::int64_t label = index % static_cast<std::int64_t>(classes_.size());
    const auto drawn = [](std::int64_t seed) {
      return torch::empty({3, kSide, kSide}).normal_(0, 1, at::detail::createCPUGenerator(seed));
    };
    return NamedTensors{{"image", drawn(label) + 0.3 * drawn(1000 + index)},
                        {"label", torch::tensor(label)},
                        {"caption", torch::tensor(label)}};
  }
  std::string sample_name(std::int64_t index) const override {
    return "picture" + std::to_string(index);
  }
  LoaderOptions loader() const override { return {}; }
  std::vector<std::int64_t> labels() const override {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < size_; ++i)
      all.push_back(i % static_cast<std::int64_t>(classes_.size()));
    return all;
  }
  std::vector<std::int64_t> captions() const override { return labels(); }
  std::vector<std::vector<std::int64_t>> captions_of_classes() const override {
    std::vector<std::vector<std::int64_t>> all;
    for (std::size_t label = 0; label < classes_.size(); ++label)
      all.push_back({static_cast<std::int64_t>(label)});
    return all;
  }

  std::string caption = "a photo of a ";
  std::vector<std::string> words = {};  ///< the class names as used in captions

 private:
  static constexpr std::int64_t kSide = 8;
  const std::int64_t size_;
  const std::vector<std::string> classes_;
};

/// The options of a CLIP model that computes quickly, without weights; every byte of a caption is a
/// token.
inline constexpr const char* kTinyClip = R"({
  "projection_dim": 6,
  "image": {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 4},
  "text": {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
  "tokenizer": {"context_length": 32}})";

}  // namespace stages
