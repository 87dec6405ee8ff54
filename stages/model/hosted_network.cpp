#include "stages/model/hosted_network.h"

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <torch/nn/module.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/stage_error.h"
#include "stages/model/adapter_folder.h"
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

/// Adapters use Python's own names for modules.
std::optional<std::string> name_in_python(std::string_view name) { return std::string(name); }

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
  lora_ = attach_lora(*this, options, name_in_python, seed);
  start_from_weights(*lora_);
}

std::vector<std::string> HostedNetwork::begin_from_adapter(const std::string& folder) {
  try {
    const SavedAdapter saved = read_adapter(folder);
    const std::array<ModuleNames, 1> names = {name_in_python};
    names_of_adapter(saved, *this, names);  // rejects an adapter for another network
    std::vector<std::string> notes = load_adapter(*lora_, saved, name_in_python);
    notes.push_back("starts from the adapter in '" + saved.folder.string() + "'");
    return notes;
  } catch (runner::StageError& error) {
    throw std::move(error).at("/adapter");
  }
}

void HostedNetwork::save_adapter_to(const std::filesystem::path& folder) const {
  save_adapter(folder, *lora_, name_in_python,
               {.base_class = python_class().at("name"),
                .parent_library = python_class().at("module"),
                .name_or_path = std::nullopt});
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
