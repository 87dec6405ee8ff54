// DoRA, PiSSA and rank-stabilized LoRA of one layer, compared with peft.

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/adapter_config.h"
#include "stages/model/attached_lora.h"
#include "stages/model/python_layer.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;
using nlohmann::json;

/// A linear layer or convolution, called "layer", computed by torch.
class RecordedLayer : public torch::nn::Module {
 public:
  explicit RecordedLayer(const RecordedCase& recorded) {
    const json& steps = recorded.json.at("case").at("steps");
    const at::Tensor weight = tensor_of(recorded.json.at("weight"));
    std::optional<ConvolutionSteps> moves;
    if (weight.dim() == 4) moves = {.stride = steps.at("stride"), .padding = steps.at("padding")};
    layer_ = register_module("layer", std::make_shared<PythonLayer>(moves));
    layer_->register_parameter("weight", weight);
    layer_->register_parameter("bias", tensor_of(recorded.json.at("bias")));
    layer_->adopt_weights();
    moves_ = moves;
  }
  at::Tensor forward(const at::Tensor& x) {
    return layer_->run(x, [this](const at::Tensor& input) {
      return moves_ ? torch::conv2d(input, layer_->weight, layer_->bias, moves_->stride,
                                    moves_->padding)
                    : torch::linear(input, layer_->weight, layer_->bias);
    });
  }
  PythonLayer& layer() { return *layer_; }

 private:
  std::shared_ptr<PythonLayer> layer_;
  std::optional<ConvolutionSteps> moves_;
};

/// peft's name of an adapter parameter, from its name in adapter files.
std::string name_in_peft(const std::string& name) {
  const std::string own = name.substr(std::string("layer.").size());
  return own == "lora_magnitude_vector" ? own + ".weight" : own;
}

LoraOptions options_in(const RecordedCase& recorded) {
  json config = recorded.json.at("case").at("kwargs");
  const bool is_principal = config.value("init_lora_weights", json()) == "pissa";
  config.erase("init_lora_weights");
  config["peft_type"] = "LORA";
  config["target_modules"] = {"layer"};
  LoraOptions options = parse_adapter_config(config.dump()).options;
  if (is_principal) options.initialization = LoraInitialization::kPrincipal;
  return options;
}

/// peft computes PiSSA in float32.
double tolerance(const LoraOptions& options) {
  return options.initialization == LoraInitialization::kPrincipal ? 2e-6 : 1e-12;
}

at::Tensor product_of(const json& factors) {
  return tensor_of(factors.at("lora_B.weight")).mm(tensor_of(factors.at("lora_A.weight")));
}

void expect_start(const RecordedCase& recorded, const LoraAdapter& adapter, double tolerance) {
  const json& start = recorded.json.at("start");
  EXPECT_EQ(adapter.scaling(), recorded.json.at("scaling").get<double>());
  if (adapter.is_principal()) {
    // The signs of singular vectors are arbitrary, but not the sign of their product.
    expect_close(adapter.b().mm(adapter.a()), product_of(start), "start", tolerance);
    const at::Tensor weight = tensor_of(recorded.json.at("weight"));
    expect_close(weight - adapter.scaling() * adapter.b().mm(adapter.a()),
                 tensor_of(recorded.json.at("start_weight")), "residual", tolerance);
  }
  if (adapter.has_magnitude())
    expect_close(adapter.magnitude(), tensor_of(start.at("lora_magnitude_vector.weight")),
                 "magnitude", 2e-6);
}

void compare_lora_variant(const RecordedCase& recorded) {
  const LoraOptions options = options_in(recorded);
  const double relative = tolerance(options);
  RecordedLayer network(recorded);
  const auto own_names = [](std::string_view name) { return std::optional(std::string(name)); };
  const AttachedLora lora = attach_lora(network, options, own_names, 1);
  start_from_weights(lora);
  expect_start(recorded, *lora.layers.front().layer->adapter(), relative);

  const NamedTensors tensors = adapter_tensors(lora, own_names);
  const json& parameters = recorded.json.at("parameters");
  std::vector<std::string> saved;
  for (const auto& [name, tensor] : tensors) {
    saved.push_back("base_model.model." + name);
    const torch::NoGradGuard no_graph;
    at::Tensor(tensor).copy_(tensor_of(parameters.at(name_in_peft(name))));
  }
  std::ranges::sort(saved);
  EXPECT_EQ(saved, recorded.json.at("saved").get<std::vector<std::string>>());

  const at::Tensor x = tensor_of(recorded.json.at("x")).requires_grad_();
  const at::Tensor y = network.forward(x);
  expect_close(y, tensor_of(recorded.json.at("output")), "output", relative);
  y.backward(tensor_of(recorded.json.at("output_gradient")));
  expect_close(x.grad(), tensor_of(recorded.json.at("x_gradient")), "gradient of x", relative);
  for (const auto& [name, tensor] : tensors)
    expect_close(tensor.grad(), tensor_of(recorded.json.at("gradients").at(name_in_peft(name))),
                 name, relative);
  merge_lora(network);
  expect_close(network.layer().weight, tensor_of(recorded.json.at("merged")), "merged", relative);
}

}  // namespace

std::vector<CaseKind> lora_variant_cases() {
  return {number_kind("LoraVariants", "lora_variant", compare_lora_variant)};
}
