#pragma once

#include <string>

#include "stages/numerics/precision_map.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// The map that a recipe writes, for one network: a rule of the recipe begins with the name of the stage that makes the
/// network ("model.encoder.*", or * for any), a rule of the result is a path in it ("encoder.*"). Throws
/// runner::StageError at <policy>/precision/<rule> for the first rule that names no module of the network, or one that
/// cannot have a precision of its own. `policy` is the pointer of the stage that holds the map, "/memory".
PrecisionMap rules_for(const torch::nn::Module& network, const std::string& name, const PrecisionMap& written,
                       const std::string& policy);

}  // namespace stages
