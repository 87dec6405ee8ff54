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
  reader.read("state_bits", options.state_bits);
  return options;
}

void read_betas(runner::ConfigReader& reader, auto& options) {
  std::vector<double> betas;
  reader.read("betas", betas);
  if (betas.size() != 2) return;
  options.beta1 = betas[0];
  options.beta2 = betas[1];
}

AdamOptions read_adam_options(runner::ConfigReader& reader) {
  AdamOptions options;
  reader.read("learning_rate", options.learning_rate);
  read_betas(reader, options);
  reader.read("epsilon", options.epsilon);
  reader.read("weight_decay", options.weight_decay);
  reader.read("amsgrad", options.amsgrad);
  reader.read("state_bits", options.state_bits);
  return options;
}

OptimizerOptions read_lion(runner::ConfigReader& reader) {
  LionOptions options;
  reader.read("learning_rate", options.learning_rate);
  read_betas(reader, options);
  reader.read("weight_decay", options.weight_decay);
  reader.read("state_bits", options.state_bits);
  return options;
}

OptimizerOptions read_lamb(runner::ConfigReader& reader) {
  LambOptions options;
  reader.read("learning_rate", options.learning_rate);
  read_betas(reader, options);
  reader.read("epsilon", options.epsilon);
  reader.read("weight_decay", options.weight_decay);
  reader.read("trust_clip", options.trust_clip);
  reader.read("always_adapt", options.always_adapt);
  reader.read("state_bits", options.state_bits);
  return options;
}

/// Reads state_bits for a rule that supports no other value: the schema rejects 8.
void read_32_bits(runner::ConfigReader& reader) {
  std::int64_t state_bits = 32;
  reader.read("state_bits", state_bits);
}

OptimizerOptions read_adafactor(runner::ConfigReader& reader) {
  AdafactorOptions options;
  reader.read("learning_rate", options.learning_rate);
  reader.read("beta2_decay", options.beta2_decay);
  reader.read("epsilon", options.epsilon);
  reader.read("minimum_scale", options.minimum_scale);
  reader.read("clip_threshold", options.clip_threshold);
  reader.read("weight_decay", options.weight_decay);
  read_32_bits(reader);
  return options;
}

OptimizerOptions read_muon(runner::ConfigReader& reader) {
  MuonOptions options;
  reader.read("learning_rate", options.learning_rate);
  reader.read("momentum", options.momentum);
  reader.read("nesterov", options.nesterov);
  reader.read("orthogonalization_steps", options.steps);
  reader.read("orthogonalization_epsilon", options.orthogonalization_epsilon);
  options.matches_adamw = runner::choice<bool>(reader, "adjust_learning_rate",
                                               {{"match_rms_adamw", true}, {"original", false}});
  reader.read("weight_decay", options.weight_decay);
  reader.read("adamw_for", options.adamw_for);
  reader.read("adamw_learning_rate_factor", options.adamw_factor);
  read_betas(reader, options);
  reader.read("epsilon", options.epsilon);
  read_32_bits(reader);
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

std::int64_t state_bits(const OptimizerOptions& options) {
  const auto bits = [](const auto& one) -> std::int64_t {
    if constexpr (requires { one.state_bits; }) return one.state_bits;
    else return 32;
  };
  return std::visit(bits, options);
}

std::optional<OptimizerOptions> with_8bit_state(OptimizerOptions options) {
  const auto change = [](auto& one) {
    if constexpr (requires { one.state_bits; }) one.state_bits = 8;
  };
  const auto* sgd = std::get_if<SgdOptions>(&options);
  const auto* adam = std::get_if<AdamOptions>(&options);
  if ((sgd && sgd->momentum == 0) || (adam && adam->amsgrad)) return {};
  const bool has_8_bits = state_bits(options) == 8;
  std::visit(change, options);
  if (has_8_bits || state_bits(options) != 8) return {};
  return options;
}

OptimizerOptions read_optimizer(runner::ConfigReader& reader) {
  using Read = OptimizerOptions (*)(runner::ConfigReader&);
  const auto read = runner::choice<Read>(reader, "kind",
                                         {{"sgd", read_sgd},
                                          {"adam", read_adam},
                                          {"adamw", read_adamw},
                                          {"lion", read_lion},
                                          {"lamb", read_lamb},
                                          {"adafactor", read_adafactor},
                                          {"muon", read_muon}});
  return read ? read(reader) : OptimizerOptions{};
}

}  // namespace stages
