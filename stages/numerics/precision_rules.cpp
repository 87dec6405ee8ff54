#include "stages/numerics/precision_rules.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <torch/nn/module.h>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/suggest.h"
#include "runner/shared/value/value.h"
#include "stages/tensor/module_names.h"
#include "stages/numerics/precision_module.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

/// What can be written in place of a module that has no precision of its own.
std::string advice(const ModulesByPath& modules, const std::string& name, std::string path) {
  while (!path.empty()) {
    path.resize(path.find('.') == path.npos ? 0 : path.rfind('.'));
    const auto around = std::ranges::find(modules, path, &ModulesByPath::value_type::first);
    if (around != modules.end() && has_own_precision(*around->second)) {
      return "name '" + name_in_recipe(name, path) + "', in which it runs";
    }
  }
  return "write one precision for the whole network, such as 'precision: bf16'";
}

[[noreturn]] void refuse(const std::string& rule, const std::string& policy, const std::string& message,
                         const std::string& help) {
  throw StageError(ErrorCode::kUnknownKey, message)
      .at(runner::pointer_to("/precision", rule))
      .in_stage(policy)
      .with_help(help);
}

[[noreturn]] void refuse_unknown(const ModulesByPath& modules, const std::string& name, const std::string& rule,
                                 const std::string& policy) {
  std::vector<std::string> known;
  for (const auto& [path, module] : modules) {
    if (has_own_precision(*module)) known.push_back(name_in_recipe(name, path));
  }
  std::string help = runner::did_you_mean(rule, known);
  if (help.empty() && known.size() > 1) {
    help = "a module is named by its stage and its path in it, such as '" + known[1] + "'";
  }
  refuse(rule, policy, "'" + rule + "' names no module of the network of '" + name + "'", help);
}

}  // namespace

PrecisionMap rules_for(const torch::nn::Module& network, const std::string& name, const PrecisionMap& written_map,
                       const std::string& policy) {
  const ModulesByPath modules = modules_by_path(network);
  PrecisionMap map = written_map.base;
  for (const PrecisionRule& rule : written_map.rules) {
    const std::optional<std::string> path = path_in_network(rule.modules, name);
    bool is_known = false, is_obeyed = false;
    for (const auto& [own_path, module] : modules) {
      if (!path || !names_module(*path, own_path)) continue;
      is_known = true;
      const bool has_weights = !module->parameters().empty();
      if (has_own_precision(*module)) {
        is_obeyed = true;
      } else if (has_weights || rule.modules.find('*') == rule.modules.npos) {
        refuse(rule.modules, policy, "'" + name_in_recipe(name, own_path) + "' cannot have a precision of its own",
               advice(modules, name, own_path));
      }
    }
    if (!is_known) refuse_unknown(modules, name, rule.modules, policy);
    if (!is_obeyed) {
      refuse(rule.modules, policy, "nothing that '" + rule.modules + "' names has a precision of its own",
             "name the modules around them");
    }
    // "model.head" is nearer than "*.head", and in the network both are "head".
    const auto same = std::ranges::find(map.rules, *path, &PrecisionRule::modules);
    if (same == map.rules.end()) map.rules.push_back({*path, rule.precision});
    else if (rule.modules.front() != '*') same->precision = rule.precision;
  }
  return map;
}

}  // namespace stages
