// Optimizer steps in blocks, including the clipping that the trainer does first.

#include <torch/types.h>
#include <torch/utils.h>

#include "stages/machine/threads.h"
#include "stages/train/optimizer.h"
#include "stages/train/step_execution.h"
#include "tests/bench/blocks.h"
#include "tests/support/optimizer_rules.h"

namespace {

/// Bit for bit the same as in optimizer.py, since both use LibTorch's sine.
at::Tensor wave(std::int64_t size, double phase, double height) {
  return (torch::arange(size, torch::kDouble) * 0.37 + phase).sin().mul(height).to(torch::kFloat);
}

stages::OptimizerOptions rule(const std::string& name) {
  if (name == "sgd")
    return stages::SgdOptions{.learning_rate = 1e-3, .momentum = 0.9, .weight_decay = 0.01};
  return stages::adamw(1e-3);
}

}  // namespace

/// One argument, JSON: {"rule": "sgd" or "adamw", "clip": a norm or null, "threads", "sizes": of
/// the parameters, and "state_bits" if not 32}.
int main(int, char** arguments) {
  const auto options = nlohmann::json::parse(arguments[1]);
  stages::use_threads(options.at("threads").get<int>());
  stages::NamedTensors parameters;
  std::vector<at::Tensor> gradients;
  for (const auto& size : options.at("sizes")) {
    const auto phase = static_cast<double>(gradients.size());
    parameters.set(std::to_string(gradients.size()), wave(size, phase, 0.02).requires_grad_());
    gradients.push_back(wave(size, phase + 1, 0.001));
  }
  for (const auto& [name, parameter] : parameters)
    parameter.mutable_grad() = torch::empty_like(parameter);
  stages::OptimizerOptions optimizer_rule = rule(options.at("rule"));
  if (options.value("state_bits", 32) == 8)
    optimizer_rule = stages::with_8bit_state(optimizer_rule).value();
  stages::Optimizer optimizer(optimizer_rule, parameters);
  const stages::Rates rates{.learning_rate = stages::learning_rate(optimizer_rule), .momentum = {}};

  const torch::NoGradGuard no_graph;
  report({{"ready", true}});
  while (const std::optional<int> block = next_block()) {
    std::vector<double> seconds;
    for (int step = 0; step < *block; ++step) {
      for (std::size_t i = 0; i < gradients.size(); ++i)
        optimizer.gradients()[i].copy_(gradients[i]);
      seconds.push_back(seconds_of([&] {
        const at::Tensor scratch = optimizer.prepare();
        std::optional<at::Tensor> divisor;
        if (!options.at("clip").is_null()) {
          divisor =
              stages::clip_divisor(stages::global_norm(optimizer.gradients()), options.at("clip"));
        }
        optimizer.set_rates({rates});
        optimizer.step({}, divisor, scratch);
      }));
    }
    double sum = 0, size = 0;
    for (const auto& [name, parameter] : parameters) {
      const at::Tensor exact = parameter.to(torch::kDouble);
      sum += exact.sum().item<double>();
      size += exact.abs().sum().item<double>();
    }
    report({{"seconds", seconds}, {"sum", sum}, {"size", size}});
  }
  return 0;
}
