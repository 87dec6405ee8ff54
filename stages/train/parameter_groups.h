#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/train/optimizer.h"

namespace runner {
class ConfigReader;
}

namespace torch::nn {
class Module;
}

namespace stages {

/// A recipe's options for some of a network's parameters. An unset option falls back to the
/// optimizer's option.
struct ParameterGroupOptions {
  std::string name = {};                ///< logged as train/learning_rate/<name>
  std::vector<std::string> match = {};  ///< patterns for matches_parameter(); one must match
  std::optional<double> learning_rate = {};
  std::optional<double> learning_rate_factor =
      {};  ///< multiplies the optimizer's learning rate; not set together with learning_rate
  std::optional<double> weight_decay = {};
  bool frozen = false;             ///< no gradient, no optimizer state, never updated
  std::int64_t frozen_epochs = 0;  ///< frozen for this many epochs at the start
  bool is_part = false;            ///< a part with different names in different networks: only one
                                   ///< pattern has to match
  bool may_be_empty = false;  ///< a part with factor 1: the network may lack it or not train it
  std::string place = {};     ///< the location of the patterns in the stage's options:
                              ///< "/parameter_groups/0/match"
  bool operator==(const ParameterGroupOptions&) const = default;
};

/// Returns the optimizer's options with the group's overrides applied.
OptimizerOptions of_group(OptimizerOptions optimizer, const ParameterGroupOptions& group);

/// A part of a network that can have a factor in the option learning_rate_factors.
struct NetworkPart {
  std::string_view name;                ///< name of the factor
  std::vector<std::string_view> match;  ///< patterns; at least one must match
  bool is_tower = false;  ///< layer_decay counts its layers separately from other towers
  bool operator==(const NetworkPart&) const = default;
};

/// Reads the options parameter_groups and learning_rate_factors; the latter is shorthand for one
/// group per element of `parts`, in the same order. Reports two groups with the same name as an
/// error of `reader`.
std::vector<ParameterGroupOptions> read_parameter_groups(runner::ConfigReader& reader,
                                                         const std::vector<NetworkPart>& parts);

/// Divides a network's parameters into groups; each parameter belongs to the first group that
/// matches it. The first group contains the unmatched parameters, if any, with the optimizer's own
/// options; the trained groups follow. Parameters of frozen groups get requires_grad false; those
/// for which it was already false are in no group. Throws runner::StageError if a pattern matches
/// nothing, if earlier groups already contain everything that it matches, or if nothing is trained;
/// the network is then unchanged.
std::vector<ParameterGroup> divide_parameters(torch::nn::Module& network,
                                              const OptimizerOptions& optimizer,
                                              const std::vector<ParameterGroupOptions>& groups);

/// True if the pattern matches the parameter with this dotted name, or a module that contains it.
///
///   vision_model.head     this parameter, or all of this module
///   *                     any characters except a dot: layers.*.bias
///   **                    any characters; "**." also matches nothing: **.bias
bool matches_parameter(std::string_view name, std::string_view pattern);

}  // namespace stages
