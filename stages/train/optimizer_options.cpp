#include "stages/train/optimizer_options.h"

#include <vector>

#include "runner/shared/stage/config_reader.h"

namespace stages {
namespace {

OptimizerOptions read_sgd(runner::ConfigReader& reader) {
  SgdOptions options;
  reader.read("learning_rate", options.learning_rate);
  reader.read("momentum", options.momentum);
  reader.read("dampening", options.dampening);
  reader.read("nesterov", options.nesterov);
  reader.read("weight_decay", options.weight_decay);
  return options;
}

AdamOptions read_adam_options(runner::ConfigReader& reader) {
  AdamOptions options;
  std::vector<double> betas;
  reader.read("learning_rate", options.learning_rate);
  reader.read("betas", betas);
  reader.read("epsilon", options.epsilon);
  reader.read("weight_decay", options.weight_decay);
  reader.read("amsgrad", options.amsgrad);
  if (betas.size() == 2) {
    options.beta1 = betas[0];
    options.beta2 = betas[1];
  }
  return options;
}

OptimizerOptions read_adam(runner::ConfigReader& reader) { return read_adam_options(reader); }

OptimizerOptions read_adamw(runner::ConfigReader& reader) {
  AdamOptions options = read_adam_options(reader);
  options.decoupled = true;
  return options;
}

}  // namespace

double learning_rate(const OptimizerOptions& options) {
  return std::visit([](const auto& one) { return one.learning_rate; }, options);
}

OptimizerOptions read_optimizer(runner::ConfigReader& reader) {
  using Read = OptimizerOptions (*)(runner::ConfigReader&);
  const auto read = runner::choice<Read>(
      reader, "kind", {{"sgd", read_sgd}, {"adam", read_adam}, {"adamw", read_adamw}});
  return read ? read(reader) : OptimizerOptions{};
}

}  // namespace stages
