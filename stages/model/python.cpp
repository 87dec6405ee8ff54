#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/value/value.h"
#include "stages/artifact/model.h"
#include "stages/python/python_network.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct PythonModelConfig {
  std::string pointer;  ///< place in the recipe
  std::string entry;    ///< "timm:create_model", "my_net.py:make"
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  std::optional<std::string> class_argument;  ///< that gets the number of classes
  std::string input;                          ///< the samples' tensor that it gets
};

PythonNetwork& as_python(torch::nn::Module& network) {
  auto* python = dynamic_cast<PythonNetwork*>(&network);
  if (!python) throw std::logic_error("not a network made by PythonModel::build()");
  return *python;
}

class PythonModel final : public Model {
 public:
  PythonModel(PythonModelConfig config, bool mixes_samples)
      : config_(std::move(config)), mixes_samples_(mixes_samples) {}

  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override {
    return make(data, "cpu", seed);
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override {
    return make(data, "meta", 0);
  }
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
    return as_python(network).forward(inputs.at(config_.input));
  }
  bool mixes_samples() const override { return mixes_samples_; }
  std::vector<std::string> notes(const torch::nn::Module& network) const override {
    std::int64_t weights = 0;
    for (const at::Tensor& parameter : network.parameters()) weights += parameter.numel();
    return {"made in Python by " + config_.entry + ": " + std::to_string(weights) + " weights"};
  }

  static nlohmann::ordered_json request(const PythonModelConfig& config, const char* device,
                                        std::uint64_t seed, std::int64_t classes) {
    nlohmann::ordered_json arguments = config.arguments;
    if (config.class_argument) arguments[*config.class_argument] = classes;
    return {{"entry", config.entry},
            {"arguments", std::move(arguments)},
            {"device", device},
            {"seed", seed}};
  }

 private:
  std::shared_ptr<torch::nn::Module> make(const DatasetDescription& data, const char* device,
                                          std::uint64_t seed) const {
    const bool has_input = std::ranges::any_of(
        data.tensors, [&](const TensorSpec& spec) { return spec.name == config_.input; });
    if (!has_input) {
      throw StageError(ErrorCode::kOptionConflict,
                       "the data's samples have no tensor '" + config_.input + "'")
          .at("/input")
          .in_stage(config_.pointer)
          .with_help("name one that they have, such as image");
    }
    try {
      return std::make_shared<PythonNetwork>(request(config_, device, seed, logits_for(data)));
    } catch (StageError& error) {
      throw std::move(error).at("/entry").in_stage(config_.pointer);
    }
  }

  const PythonModelConfig config_;
  const bool mixes_samples_;
};

class PythonStage final : public runner::Stage {
 public:
  explicit PythonStage(PythonModelConfig config) : config_(std::move(config)) {}

  bool uses_seed() const override { return false; }

  runner::Outputs run(const runner::Inputs&, runner::RunContext&) override {
    try {
      const PythonNetwork probe(PythonModel::request(config_, "meta", 0, /*classes=*/2));
      return {{"model", std::make_shared<PythonModel>(config_, probe.mixes_samples())}};
    } catch (StageError& error) {
      throw std::move(error).at("/entry").in_stage(config_.pointer);
    }
  }

 private:
  const PythonModelConfig config_;
};

runner::Result<std::unique_ptr<runner::Stage>> create_python(runner::ConfigReader& reader) {
  PythonModelConfig config;
  config.pointer = reader.pointer();
  reader.read("entry", config.entry);
  reader.read("class_argument", config.class_argument);
  reader.read("input", config.input);
  if (const runner::Value* const arguments = reader.raw("arguments"))
    config.arguments = nlohmann::ordered_json(runner::to_json(*arguments, /*hide_secrets=*/false));
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<PythonStage>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kModelPython = {"model.python", create_python};

}  // namespace stages
