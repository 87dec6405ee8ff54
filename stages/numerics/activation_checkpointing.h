#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace torch::nn {
class Module;
}

namespace stages {

/// The parts of a network that recompute their activations in the backward pass instead of saving
/// them. None by default.
struct ActivationCheckpointing {
  bool blocks = false;  ///< recompute every block of the network separately
  std::vector<std::string>
      modules;  ///< or recompute these: stage name and path in its network; * matches any one name
  /// If true, a recomputed BatchNorm updates its running statistics a second time, as in timm. If
  /// false, the statistics are the same as without checkpointing.
  bool updates_twice = false;
  bool operator==(const ActivationCheckpointing&) const = default;
  bool recomputes() const { return blocks || !modules.empty(); }
};

/// Translates a recipe's settings for the network of the stage `name`: module names become paths in
/// the network. Throws runner::StageError at <policy>/activation_checkpointing for the first name
/// that matches no module, or no module that can be recomputed, or if `written` asks for blocks but
/// the network has none. `policy` is the pointer of the memory policy's stage, "/memory".
ActivationCheckpointing activation_checkpointing_for(const torch::nn::Module& network,
                                                     const std::string& name,
                                                     const ActivationCheckpointing& written,
                                                     const std::string& policy);

/// Returns the paths of the network's blocks in the order of registration. Each block can be
/// recomputed separately.
std::vector<std::string> blocks_of(const torch::nn::Module& network);

/// Returns "none", "block" or the list of modules.
nlohmann::ordered_json to_json(const ActivationCheckpointing& modules);

}  // namespace stages
