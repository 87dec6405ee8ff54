#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/artifact/model.h"

/// Points of a few classes in a plane, one cluster per class: learned in a few steps, and the same
/// in every call.
class TinyDataset final : public stages::Dataset {
 public:
  explicit TinyDataset(std::int64_t size, std::int64_t classes = 3)
      : size_(size), classes_(classes) {}

  stages::DatasetDescription describe() const override {
    stages::DatasetDescription description;
    description.size = size_;
    description.tensors = {{"image", {2}, torch::kFloat}, {"label", {}, torch::kLong}};
    description.classes = class_names;
    for (auto i = static_cast<std::int64_t>(class_names.size()); i < classes_; ++i) {
      description.classes.push_back("class" + std::to_string(i));
    }
    if (has_captions) {
      description.captions = description.classes;
      description.tensors.push_back({"caption", {}, torch::kLong});
    }
    return description;
  }
  std::optional<stages::NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    if (skipped.contains(index)) return {};
    const std::int64_t label = label_of(index);
    const double angle = 2.4 * static_cast<double>(label),
                 noise = 0.3 * std::sin(12.9898 * static_cast<double>(index));
    const double scale = broken.contains(index) ? std::nan("") : 1.0;
    const auto image =
        torch::tensor({scale * std::cos(angle) + noise, std::sin(angle) - noise}, torch::kFloat);
    stages::NamedTensors sample{{"image", image}, {"label", torch::tensor(label)}};
    if (has_captions) sample.set("caption", torch::tensor(label));
    return sample;
  }
  std::string sample_name(std::int64_t index) const override {
    return "point" + std::to_string(index);
  }
  stages::LoaderOptions loader() const override { return options; }
  std::vector<std::int64_t> labels() const override {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; tells_labels && i < size_; ++i) all.push_back(label_of(i));
    return all;
  }
  std::vector<std::int64_t> captions() const override {
    return has_captions ? labels() : std::vector<std::int64_t>{};
  }

  std::vector<std::string> class_names;            // the first names; then class0, class1 …
  std::set<std::int64_t> skipped, broken;          // unreadable samples; samples with a NaN
  std::map<std::int64_t, std::int64_t> relabeled;  // instead of index modulo classes
  bool tells_labels = true;
  bool has_captions = false;  // a sample's caption is the name of its class
  stages::LoaderOptions options;

 private:
  std::int64_t label_of(std::int64_t index) const {
    return relabeled.contains(index) ? relabeled.at(index) : index % classes_;
  }

  const std::int64_t size_, classes_;
};

/// torch's linear layer, on any device.
struct TinyLinear : torch::nn::Module {
  TinyLinear(std::int64_t in, std::int64_t out, at::Device device)
      : weight(register_parameter("weight", torch::empty({out, in}, device))),
        bias(register_parameter("bias", torch::empty({out}, device))) {
    if (device.is_meta()) return;
    const torch::NoGradGuard no_graph;
    const torch::nn::Linear like(in, out);
    weight.copy_(like->weight);
    bias.copy_(like->bias);
  }
  at::Tensor forward(const at::Tensor& x) { return torch::linear(x, weight, bias); }
  at::Tensor weight, bias;
};

/// Two layers on TinyDataset's points.
class TinyModel final : public stages::Model {
 public:
  std::shared_ptr<torch::nn::Module> build(const stages::DatasetDescription& data,
                                           std::uint64_t seed) const override {
    torch::manual_seed(seed);
    return make(data, at::kCPU);
  }
  std::shared_ptr<torch::nn::Module> outline(
      const stages::DatasetDescription& data) const override {
    return make(data, at::kMeta);
  }
  stages::NamedTensors forward(torch::nn::Module& network,
                               const stages::NamedTensors& inputs) const override {
    return {
        {"logits", dynamic_cast<torch::nn::SequentialImpl&>(network).forward(inputs.at("image"))}};
  }
  bool mixes_samples() const override { return mixes; }
  bool has_ordinal_head(stages::OrdinalHead head) const override {
    return head == stages::OrdinalHead::kCorn || has_coral_head;
  }

  bool mixes = false, has_coral_head = false;

 private:
  static std::shared_ptr<torch::nn::Module> make(const stages::DatasetDescription& data,
                                                 at::Device device) {
    const std::int64_t logits = stages::logits_for(data);
    return torch::nn::Sequential(TinyLinear(2, 8, device), torch::nn::Tanh(),
                                 TinyLinear(8, logits, device))
        .ptr();
  }
};
