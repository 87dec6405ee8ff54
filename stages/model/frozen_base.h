#pragma once

#include <set>
#include <string>

#include "stages/weights/weights.h"

namespace stages {

/// The OnFrozenBase of a network whose base are the parameters that need no gradient.
class FrozenBase : public OnFrozenBase {
 public:
  bool is_base(std::string_view weight) const override { return base_weights_.contains(weight); }
  const std::string& base() const override { return base_; }

 protected:
  /// From now on the parameters of `network` that need no gradient are the base, which `base` stands for.
  void freeze(const torch::nn::Module& network, std::string base);

 private:
  std::set<std::string, std::less<>> base_weights_;
  std::string base_;
};

}  // namespace stages
