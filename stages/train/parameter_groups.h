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

/// A recipe's options for some of a network's parameters. An empty one is the optimizer's.
struct ParameterGroupOptions {
  std::string name = {};                ///< shown as train/learning_rate/<name>
  std::vector<std::string> match = {};  ///< patterns, any of which: parameter_pattern.h
  std::optional<double> learning_rate = {};
  std::optional<double> learning_rate_factor =
      {};  ///< of the optimizer's learning rate; at most one of the two is set
  std::optional<double> weight_decay = {};
  bool frozen = false;  ///< no gradient, no state, never written
  bool is_part =
      false;  ///< a part of networks of several kinds: one pattern that matches is enough
  bool may_be_empty =
      false;  ///< a part whose factor changes nothing: the network may lack it, or train none of it
  std::string place = {};  ///< of the patterns in the stage's options: "/parameter_groups/0/match"
  bool operator==(const ParameterGroupOptions&) const = default;
};

/// The optimizer's options as a group's parameters follow them.
OptimizerOptions of_group(OptimizerOptions optimizer, const ParameterGroupOptions& group);

/// A part of a network that the option learning_rate_factors has a factor for.
struct NetworkPart {
  std::string_view name;                ///< of the factor
  std::vector<std::string_view> match;  ///< patterns, any of which
};

/// Reads the options parameter_groups and learning_rate_factors, of which the second is short for a
/// group for each of `parts`, in their order; two groups of one name become an error of `reader`.
std::vector<ParameterGroupOptions> read_parameter_groups(runner::ConfigReader& reader,
                                                         const std::vector<NetworkPart>& parts);

/// Divides a network's parameters: each belongs to the first group that matches it. First come
/// those that none does, if there are any, under the optimizer's own options, then the groups that
/// are trained. Those of frozen groups ask for no gradient any more; those that asked for none are
/// in no group. Throws runner::StageError where a pattern matches nothing, or nothing that is left,
/// and where nothing is trained; then the network is as it was.
std::vector<ParameterGroup> divide_parameters(torch::nn::Module& network,
                                              const OptimizerOptions& optimizer,
                                              const std::vector<ParameterGroupOptions>& groups);

/// Does a pattern mean the parameter of that dotted name, or a module that it is in?
///
///   vision_model.head     that parameter, or all of that module
///   *                     any characters but a dot: layers.*.bias
///   **                    any characters; "**." also stands for nothing: **.bias
bool matches_parameter(std::string_view name, std::string_view pattern);

}  // namespace stages
