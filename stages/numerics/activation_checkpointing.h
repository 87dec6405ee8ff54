#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace torch::nn {
class Module;
}

namespace stages {

/// The parts of a network whose activations are not kept for the backward pass but recomputed in
/// it. None by default.
struct ActivationCheckpointing {
  bool blocks = false;  ///< every block of the network, each by itself
  std::vector<std::string>
      modules;  ///< or these: the stage's name and a path in its network; * for any one name
  /// A BatchNorm in one of them updates its running statistics a second time when it is recomputed,
  /// as with timm; otherwise the statistics equal those of a step without checkpointing.
  bool updates_twice = false;
  bool operator==(const ActivationCheckpointing&) const = default;
  bool recomputes() const { return blocks || !modules.empty(); }
};

/// Translates what a recipe says for the network that the stage `name` makes: modules become paths
/// in the network. Throws runner::StageError at <policy>/activation_checkpointing for the first
/// name that matches no module of the network or none that can be recomputed, and if there is no
/// block. `policy` is the pointer of the stage that holds it, "/memory".
ActivationCheckpointing activation_checkpointing_for(const torch::nn::Module& network,
                                                     const std::string& name,
                                                     const ActivationCheckpointing& written,
                                                     const std::string& policy);

/// The paths of a network's blocks, each of which can be recomputed by itself, in the order of
/// registration.
std::vector<std::string> blocks_of(const torch::nn::Module& network);

/// "none", "block" or the list of modules.
nlohmann::ordered_json to_json(const ActivationCheckpointing& modules);

}  // namespace stages
