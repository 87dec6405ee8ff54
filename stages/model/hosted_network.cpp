#include "stages/model/hosted_network.h"

#include <memory>
#include <string>
#include <utility>

#include <torch/nn/module.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/stage_error.h"
#include "stages/model/python_layer.h"

namespace stages {
namespace {

std::shared_ptr<torch::nn::Module> python_layer(const nlohmann::ordered_json& steps) {
  std::optional<ConvolutionSteps> of_convolution;
  if (!steps.empty()) {
    of_convolution = {.stride = steps.at("stride"),
                      .padding = steps.at("padding"),
                      .dilation = steps.at("dilation")};
  }
  return std::make_shared<PythonLayer>(std::move(of_convolution));
}

}  // namespace

HostedNetwork::HostedNetwork(const nlohmann::ordered_json& request, bool draws,
                             nlohmann::ordered_json description)
    : PythonNetwork(request, draws, python_layer),
      description_(std::make_shared<const nlohmann::ordered_json>(std::move(description))) {
  apply([](torch::nn::Module& module) {
    if (auto* layer = dynamic_cast<PythonLayer*>(&module)) layer->adopt_weights();
  });
}

void HostedNetwork::attach(const LoraOptions& options, std::uint64_t seed) {
  const auto as_in_python = [](std::string_view name) -> std::optional<std::string> {
    return std::string(name);
  };
  lora_ = attach_lora(*this, options, as_in_python, seed);
  start_from_weights(*lora_);
}

void HostedNetwork::check_adapters() const {
  if (!lora_) return;
  for (const LoraLayer& adapted : lora_->layers) {
    const auto* layer = dynamic_cast<const PythonLayer*>(adapted.layer.get());
    if (!layer || !layer->adapter() || layer->has_run()) continue;
    throw runner::StageError(runner::ErrorCode::kOptionConflict,
                             "the adapter of '" + adapted.module +
                                 "' has no effect: the network does not call this layer")
        .at("/targets")
        .with_help("add it to 'exclude', or narrow 'targets'");
  }
}

}  // namespace stages
