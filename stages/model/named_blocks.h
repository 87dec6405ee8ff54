#pragma once

#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace stages {

/// Checks the patterns in the option `blocks` of a Python network. `unsuitable` are the modules
/// that do not map one tensor to one tensor. Throws runner::StageErrors at <model>/blocks/<index>
/// for each pattern that matches no module, a module inside another block, or an unsuitable one.
/// `model` is the pointer of the model's stage, "/model".
void check_blocks(const torch::nn::Module& network, const std::vector<std::string>& patterns,
                  const std::vector<std::string>& unsuitable, const std::string& model);

}  // namespace stages
