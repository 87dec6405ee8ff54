#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stages/numerics/precision.h"

namespace stages {

/// The format of the modules that `modules` names, and of all within them. It is a dotted path in which * stands for
/// any one name: "encoder.layers.*.mlp"; "" is the whole network.
struct PrecisionRule {
  std::string modules;
  Precision precision = Precision::kFp32;
  bool operator==(const PrecisionRule&) const = default;
};

/// In which number format each module of a network runs: in `base`, but for those that rules name.
struct PrecisionMap {
  PrecisionMap(Precision base = Precision::kFp32, std::vector<PrecisionRule> rules = {})
      : base(base), rules(std::move(rules)) {}
  bool operator==(const PrecisionMap&) const = default;

  /// True if anything may run in `precision`.
  bool uses(Precision precision) const;
  /// The rule for the module at `path`; null: none, so it runs in `base`. Of several the one that names most
  /// of the path wins; of such, at the first name where they differ, the one without a *.
  const PrecisionRule* rule_for(std::string_view path) const;

  Precision base;
  std::vector<PrecisionRule> rules;
};

/// True if `pattern` names the module at `path` itself.
bool names_module(std::string_view pattern, std::string_view path);

}  // namespace stages
