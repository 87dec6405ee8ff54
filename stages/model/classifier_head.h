#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stages/artifact/ordinal_head.h"
#include "stages/model/convolution_layers.h"
#include "stages/model/layers.h"
#include "stages/random/dropout.h"

namespace stages {

/// The `head` of schemas/model/se_resnext.
struct ClassifierHeadOptions {
  std::vector<std::int64_t> widths;  ///< widths of the hidden layers
  double dropout = 0;                ///< before the first layer; half as much before later ones
  OrdinalHead ordinal = OrdinalHead::kNone;  ///< kind of the last layer
};

/// A classification head: dropout, a linear layer, ReLU and BatchNorm for each width; then dropout
/// and a linear layer. Children are numbered as in the published torch::nn::Sequential, which also
/// counts ReLU: 0 dropout, 1 linear, 3 norm, 4 dropout …
class ClassifierHead : public PrecisionModule {
 public:
  ClassifierHead(const ClassifierHeadOptions& head, std::int64_t features, std::int64_t outputs,
                 const at::TensorOptions& options);
  /// Maps (n, features) to (n, outputs).
  at::Tensor forward(const at::Tensor& features) const;
  /// Draws the weights by torch's rule for nn.Linear, as a function of `seed` and their names,
  /// which begin with `path`.
  void initialize(const std::string& path, std::uint64_t seed);
  /// Sets all weights to zero; the head must be a single linear layer.
  void make_zero();

 private:
  struct Layer {
    std::shared_ptr<Dropout> dropout;
    std::shared_ptr<Linear> linear;
    std::shared_ptr<BatchNorm> norm;  // null for the last layer
  };
  std::vector<Layer> layers_;
};

}  // namespace stages
