#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/artifact/model.h"

namespace stages {

/// Samples that each have a row of values as "image". The name of sample i is `called` followed by
/// i.
class NumberRows final : public Dataset {
 public:
  NumberRows(at::Tensor rows, std::vector<std::int64_t> labels, std::vector<std::string> classes,
             std::string called = "image")
      : rows_(std::move(rows)),
        labels_(std::move(labels)),
        classes_(std::move(classes)),
        called_(std::move(called)) {}

  DatasetDescription describe() const override {
    DatasetDescription description{
        std::ssize(labels_), {{"image", {rows_.size(1)}, at::kFloat}}, classes_};
    if (!classes_.empty()) description.tensors.push_back({"label", {}, at::kLong});
    return description;
  }
  std::optional<NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    if (skipped.contains(index)) return std::nullopt;
    read.push_back(index);
    return NamedTensors{{"image", rows_[index]},
                        {"label", torch::tensor(labels_[static_cast<std::size_t>(index)])}};
  }
  std::string sample_name(std::int64_t index) const override {
    return called_ + std::to_string(index);
  }
  LoaderOptions loader() const override { return {}; }
  std::vector<std::int64_t> labels() const override { return labels_; }

  std::set<std::int64_t> skipped;
  mutable std::vector<std::int64_t> read;

 private:
  const at::Tensor rows_;
  const std::vector<std::int64_t> labels_;
  const std::vector<std::string> classes_;
  const std::string called_;
};

/// A model that returns "image" as the logits, and records how it was run.
class EchoModel final : public Model {
 public:
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription&,
                                           std::uint64_t) const override {
    return std::make_shared<torch::nn::Module>();
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override {
    return build(data, 0);
  }
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
    batches.push_back(inputs.at("image").size(0));
    was_training |= network.is_training();
    had_graph |= torch::GradMode::is_enabled();
    return {{"logits", inputs.at("image")}};
  }
  bool mixes_samples() const override { return false; }

  mutable std::vector<std::int64_t> batches;
  mutable bool was_training = false, had_graph = false;
};

}  // namespace stages
