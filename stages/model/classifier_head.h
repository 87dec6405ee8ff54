#pragma once

#include <memory>
#include <vector>

#include "stages/model/convolution_layers.h"
#include "stages/model/layers.h"
#include "stages/random/dropout.h"

namespace stages {

/// The `head` of schemas/model/se_resnext.
struct ClassifierHeadOptions {
  std::vector<std::int64_t> widths;  ///< of the hidden layers
  double dropout = 0;                ///< before the first layer; half of it before the others
};

/// For each width a linear layer, ReLU and BatchNorm, preceded by dropout; then a linear layer. Children are numbered
/// as in the published torch::nn::Sequential, which counts ReLU too: 0 dropout, 1 linear, 3 norm, 4 dropout …
class ClassifierHead : public PrecisionModule {
 public:
  ClassifierHead(const ClassifierHeadOptions& head, std::int64_t features, std::int64_t outputs,
                 const at::TensorOptions& options);
  /// (n, features) to (n, outputs).
  at::Tensor forward(const at::Tensor& features) const;
  /// Draws the weights by torch's rule of nn.Linear; a function of `seed` and their names below `path`.
  void initialize(const std::string& path, std::uint64_t seed);

 private:
  struct Layer {
    std::shared_ptr<Dropout> dropout;
    std::shared_ptr<Linear> linear;
    std::shared_ptr<BatchNorm> norm;  // null: the last layer
  };
  std::vector<Layer> layers_;
};

}  // namespace stages
