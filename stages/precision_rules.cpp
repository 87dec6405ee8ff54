#include "stages/precision_rules.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "runner/stage.h"
#include "runner/suggest.h"
#include "runner/value.h"
#include "stages/precision_module.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

/// All modules with their paths, the network itself first, by "".
using Modules = std::vector<std::pair<std::string, const torch::nn::Module*>>;

Modules modules_of(const torch::nn::Module& network) {
  Modules modules;
  network.apply([&](const std::string& path, const torch::nn::Module& module) { modules.emplace_back(path, &module); });
  return modules;
}

/// `name` and a path in it, as a recipe writes them.
std::string written(const std::string& name, const std::string& path) {
  return path.empty() ? name : name + "." + path;
}

/// The part of a rule that is a path in the network; nullopt where it is of another stage.
std::optional<std::string> path_of(const std::string& rule, const std::string& name) {
  const std::size_t end = std::min(rule.find('.'), rule.size());
  const std::string stage = rule.substr(0, end);
  if (stage != name && stage != "*") return {};
  return rule.substr(std::min(end + 1, rule.size()));
}

/// What can be written in place of a module that has no precision of its own.
std::string advice(const Modules& modules, const std::string& name, std::string path) {
  while (!path.empty()) {
    path.resize(path.find('.') == path.npos ? 0 : path.rfind('.'));
    const auto around = std::ranges::find(modules, path, &Modules::value_type::first);
    if (around != modules.end() && has_own_precision(*around->second)) {
      return "name '" + written(name, path) + "', in which it runs";
    }
  }
  return "write one precision for the whole network, such as 'precision: bf16'";
}

[[noreturn]] void refuse(const std::string& rule, const std::string& policy, const std::string& message,
                         const std::string& help) {
  throw StageError(ErrorCode::kUnknownKey, runner::pointer_to("/precision", rule), message, help, policy);
}

[[noreturn]] void refuse_unknown(const Modules& modules, const std::string& name, const std::string& rule,
                                 const std::string& policy) {
  std::vector<std::string> known;
  for (const auto& [path, module] : modules) {
    if (has_own_precision(*module)) known.push_back(written(name, path));
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
  const Modules modules = modules_of(network);
  PrecisionMap map = written_map.base;
  for (const PrecisionRule& rule : written_map.rules) {
    const std::optional<std::string> path = path_of(rule.modules, name);
    bool is_known = false, is_obeyed = false;
    for (const auto& [own_path, module] : modules) {
      if (!path || !names_module(*path, own_path)) continue;
      is_known = true;
      const bool has_weights = !module->parameters().empty();
      if (has_own_precision(*module)) {
        is_obeyed = true;
      } else if (has_weights || rule.modules.find('*') == rule.modules.npos) {
        refuse(rule.modules, policy, "'" + written(name, own_path) + "' cannot have a precision of its own",
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
