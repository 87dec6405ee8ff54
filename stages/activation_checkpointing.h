#pragma once

#include <string>
#include <vector>

namespace stages {

/// Which parts of a network keep none of their activations for the backward pass, but are computed again in it. By
/// default none.
struct ActivationCheckpointing {
  bool blocks = false;               ///< every block of the network, each by itself
  std::vector<std::string> modules;  ///< or these: the stage's name and a path in its network, * for any one part
  bool operator==(const ActivationCheckpointing&) const = default;
};

}  // namespace stages
