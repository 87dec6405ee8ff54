#include <cmath>
#include <memory>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/model/layers.h"
#include "stages/numerics/recomputable_module.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

/// The options of schemas/model/novel.schema.json.
struct NovelConfig {
  std::int64_t hidden_size = 0;
};

/// Children: first, second.
class NovelNetwork final : public PrecisionModule {
 public:
  NovelNetwork(std::int64_t inputs, std::int64_t hidden, std::int64_t classes,
               const at::TensorOptions& tensors)
      : first_(register_module("first", std::make_shared<Linear>(inputs, hidden, true, tensors))),
        second_(
            register_module("second", std::make_shared<Linear>(hidden, classes, true, tensors))) {}

  at::Tensor forward(const at::Tensor& image) const {
    const OwnPrecision own(*this);
    return second_->forward(torch::gelu(first_->forward(own(image).flatten(1))));
  }

 private:
  std::shared_ptr<Linear> first_, second_;
};

class NovelModel final : public Model {
 public:
  explicit NovelModel(const NovelConfig& config) : config_(config) {}

  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override {
    const auto network = network_for(data, at::kFloat);
    const torch::NoGradGuard no_graph;
    const at::Generator generator = at::detail::createCPUGenerator(seed);
    for (at::Tensor& weight : network->parameters()) {
      if (weight.dim() == 1) weight.zero_();
      else weight.normal_(0, 1 / std::sqrt(static_cast<double>(weight.size(1))), generator);
    }
    return network;
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override {
    return network_for(data, at::TensorOptions(at::kFloat).device(at::kMeta));
  }
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
    return {{"logits", dynamic_cast<const NovelNetwork&>(network).forward(inputs.at("image"))}};
  }
  bool mixes_samples() const override { return false; }

 private:
  std::shared_ptr<NovelNetwork> network_for(const DatasetDescription& data,
                                            const at::TensorOptions& tensors) const {
    if (data.classes.empty())
      throw StageError(ErrorCode::kLabelOutOfRange, "the data has no classes");
    return std::make_shared<NovelNetwork>(values_of_image(data), config_.hidden_size,
                                          static_cast<std::int64_t>(data.classes.size()), tensors);
  }

  static std::int64_t values_of_image(const DatasetDescription& data) {
    for (const TensorSpec& tensor : data.tensors) {
      if (tensor.name == "image") return c10::multiply_integers(tensor.shape);
    }
    throw StageError(ErrorCode::kOptionConflict, "the data has no images");
  }

  const NovelConfig config_;
};

class Novel final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
    NovelConfig config;
    reader.read("hidden_size", config.hidden_size);
    if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<runner::Stage>(std::make_unique<Novel>(config));
  }

  explicit Novel(const NovelConfig& config) : config_(config) {}

  runner::Outputs run(const runner::Inputs&, runner::RunContext&) override {
    return {{"model", std::make_shared<NovelModel>(config_)}};
  }

 private:
  const NovelConfig config_;
};

}  // namespace

extern const runner::StageKind kModelNovel = {.name = "model.novel", .create = Novel::create};

}  // namespace stages
