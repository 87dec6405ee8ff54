#pragma once

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
/// optimizer's.
struct ParameterGroupOptions {
  std::string name = {};                ///< logged as train/learning_rate/<name>
  std::vector<std::string> match = {};  ///< patterns, of which one must match: matches_parameter()
  std::optional<double> learning_rate = {};
  std::optional<double> learning_rate_factor =
      {};  ///< multiplies the optimizer's learning rate; at most one of the two is set
  std::optional<double> weight_decay = {};
  bool frozen = false;   ///< no gradient, no optimizer state, never updated
  bool is_part = false;  ///< a part that several kinds of network name differently: one matching
                         ///< pattern is enough
  bool may_be_empty =
      false;  ///< a part whose factor has no effect: the network may lack it, or train none of it
  std::string place = {};  ///< where the patterns stand in the stage's options:
                           ///< "/parameter_groups/0/match"
  bool operator==(const ParameterGroupOptions&) const = default;
};

/// The optimizer's options with the group's overrides applied.
OptimizerOptions of_group(OptimizerOptions optimizer, const ParameterGroupOptions& group);

/// A part of a network that can have a factor in the option learning_rate_factors.
struct NetworkPart {
  std::string_view name;                ///< the name of the factor
  std::vector<std::string_view> match;  ///< patterns, of which one must match
};

/// Reads the options parameter_groups and learning_rate_factors; the second is short for a group
/// for each of `parts`, in their order. Two groups with the same name are an error of `reader`.
std::vector<ParameterGroupOptions> read_parameter_groups(runner::ConfigReader& reader,
                                                         const std::vector<NetworkPart>& parts);

/// Divides a network's parameters into groups; each belongs to the first group that matches it. The
/// first group has the unmatched parameters, if there are any, with the optimizer's own options;
/// the trained groups follow. Parameters of frozen groups get requires_grad false; those that
/// already had it are in no group. Throws runner::StageError if a pattern matches nothing, or
/// nothing that is left, and if nothing is trained; the network is then unchanged.
std::vector<ParameterGroup> divide_parameters(torch::nn::Module& network,
                                              const OptimizerOptions& optimizer,
                                              const std::vector<ParameterGroupOptions>& groups);

/// Does the pattern match the parameter of that dotted name, or a module that contains it?
///
///   vision_model.head     that parameter, or all of that module
///   *                     any characters but a dot: layers.*.bias
///   **                    any characters; "**." also stands for nothing: **.bias
bool matches_parameter(std::string_view name, std::string_view pattern);

}  // namespace stages
