#include "stages/train/muon.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/stage.h"
#include "stages/train/optimizer.h"
#include "stages/train/parameter_groups.h"

namespace stages {

bool is_muon_matrix(const MuonOptions& rule, std::string_view name, const at::Tensor& parameter) {
  constexpr std::array kOthers = {"head", "heads", "classifier", "class_head", "fc", "**embed**"};
  const auto matches = [&](std::string_view pattern) { return matches_parameter(name, pattern); };
  return parameter.dim() > 1 && parameter.numel() > 0 && std::ranges::none_of(kOthers, matches) &&
         std::ranges::none_of(rule.adamw_for, matches);
}

AdamOptions adamw_of(const MuonOptions& rule) {
  return {.learning_rate = rule.learning_rate * rule.adamw_factor,
          .beta1 = rule.beta1,
          .beta2 = rule.beta2,
          .epsilon = rule.epsilon,
          .weight_decay = rule.weight_decay,
          .amsgrad = false,
          .decoupled = true};
}

void check_muon(const std::vector<ParameterGroup>& groups) {
  const auto* rule = std::get_if<MuonOptions>(&groups.front().optimizer);
  if (!rule) return;
  const auto is_any = [&](const auto& is) {
    return std::ranges::any_of(groups, [&](const ParameterGroup& group) {
      return std::any_of(group.parameters.begin(), group.parameters.end(),
                         [&](const NamedTensors::Item& item) { return is(item); });
    });
  };
  for (const std::string& pattern : rule->adamw_for) {
    if (is_any([&](const auto& item) { return matches_parameter(item.first, pattern); })) continue;
    throw runner::StageError(runner::ErrorCode::kOptionConflict,
                             "the pattern '" + pattern + "' matches no trained parameter")
        .at("/optimizer/adamw_for")
        .with_help("write the dotted name of a parameter or module, or leave the pattern out");
  }
  if (is_any([&](const auto& item) { return is_muon_matrix(*rule, item.first, item.second); }))
    return;
  throw runner::StageError(runner::ErrorCode::kOptionConflict,
                           "Muon updates the matrices of hidden layers, but none are trained")
      .at("/optimizer")
      .with_help("choose optimizer.kind: adamw, or train more of the network");
}

}  // namespace stages
