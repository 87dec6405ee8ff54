#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace torch::nn {
class Module;
}

namespace stages {

/// Which parts of a network keep none of their activations for the backward pass, but are computed
/// again in it. By default none.
struct ActivationCheckpointing {
  bool blocks = false;  ///< every block of the network, each by itself
  std::vector<std::string>
      modules;  ///< or these: the stage's name and a path in its network, * for any one part
  /// A BatchNorm in one of them updates its running statistics once more when it is computed again,
  /// as timm's does; otherwise they are those of a step without checkpointing.
  bool updates_twice = false;
  bool operator==(const ActivationCheckpointing&) const = default;
  bool recomputes() const { return blocks || !modules.empty(); }
};

/// What a recipe writes, for the network that the stage `name` makes: its modules are then paths in
/// the network. Throws runner::StageError at <policy>/activation_checkpointing for the first that
/// names no module of the network, or none that can be computed again, and where there is no block.
/// `policy` is the pointer of the stage that holds it,
/// "/memory".
ActivationCheckpointing activation_checkpointing_for(const torch::nn::Module& network,
                                                     const std::string& name,
                                                     const ActivationCheckpointing& written,
                                                     const std::string& policy);

/// The paths in a network of its blocks, each of which can be recomputed by itself, in the order of
/// their registration.
std::vector<std::string> blocks_of(const torch::nn::Module& network);

/// "none", "block" or the list of modules.
nlohmann::ordered_json to_json(const ActivationCheckpointing& modules);

}  // namespace stages
